"""A portfolio an agent can act on, and an auditor can prove; see docs/trading.md."""
