"""Attacks on a served desk beside a token holder, who must not notice them."""
