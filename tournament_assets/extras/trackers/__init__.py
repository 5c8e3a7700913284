"""Sends finished runs to other tools that keep results."""
