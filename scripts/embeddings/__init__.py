"""How the static embedding table is made: sources, pairs of words and code, a teacher, a table."""
