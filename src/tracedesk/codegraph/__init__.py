"""A graph of code and of what was tried on it: what is in these files, and who tried this before."""
