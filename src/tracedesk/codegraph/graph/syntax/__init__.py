"""One file read with its grammar: from the queries' captures to names, docs, headers and imports."""
