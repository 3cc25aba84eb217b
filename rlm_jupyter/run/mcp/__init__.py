"""Servers of the Model Context Protocol, whose tools a run may call (https://modelcontextprotocol.io)."""
