"""Tracedesk: one MCP desk where every fact and every act leaves a trace."""

__version__ = "0.1.0"
