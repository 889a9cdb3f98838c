"""Tests of the market data of the local exchange."""
