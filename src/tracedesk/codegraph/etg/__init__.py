"""The execution trace graph: attempts, their events and tool calls, in `trace.db` on the journal."""
