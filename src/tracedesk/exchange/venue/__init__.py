"""The matching core of the local exchange: books, orders, accounts, and the file they survive in."""
