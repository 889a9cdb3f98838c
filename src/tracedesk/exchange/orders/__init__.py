"""Orders under safety rules: previewed, capped, sent once, and accounted for."""
