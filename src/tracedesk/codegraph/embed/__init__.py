"""Vectors of texts without a network: a static table of our own, and MiniLM where it was installed."""
