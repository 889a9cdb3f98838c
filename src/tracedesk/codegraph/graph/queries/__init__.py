"""Our tag queries, one file for each language or for what several share."""
