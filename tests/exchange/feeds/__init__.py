"""Live markets and accounts, against scripted venues and the local exchange."""
