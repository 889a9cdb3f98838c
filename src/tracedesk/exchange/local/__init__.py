"""The local exchange: the matching core behind Binance's wire."""
