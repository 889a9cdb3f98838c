"""Events that arrive without being asked for: client hooks, OTLP, git history."""
