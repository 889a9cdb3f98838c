"""Live markets and accounts, shared by everyone who watches them."""
