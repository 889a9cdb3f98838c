"""Whose account it is: keys of profiles, a one-time page or a handshake, never of a tool call."""
