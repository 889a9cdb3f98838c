"""One asynchronous client of the wire, the same for every venue."""
