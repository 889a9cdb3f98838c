"""The code graph: files, symbols, chunks and the edges between them, in `graph.db`."""
