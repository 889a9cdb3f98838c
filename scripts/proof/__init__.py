"""Proofs: the figures that `make prove` measured, one file a bar, and the page that is made from them.

`python -m scripts.proof` writes docs/performance.md from docs/proof; `--check` only reports a stale page.
"""
