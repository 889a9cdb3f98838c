"""A Binance-style spot exchange: its wire, its books and flow, its orders, and one of our own inside."""
