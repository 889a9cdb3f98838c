"""Retrieval: which files and symbols a question is about, and which attempts were like it."""
