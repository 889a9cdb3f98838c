"""Where quotes, histories, news and fundamentals come from."""
