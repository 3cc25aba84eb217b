"""Runs that another agent asks for: tools of the Model Context Protocol, and what they do."""
