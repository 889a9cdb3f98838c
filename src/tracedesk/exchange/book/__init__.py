"""A local order book: kept in step with a stream, with what happened lately beside it."""
