"""The client of the wire, against a venue that does exactly what a test says."""
