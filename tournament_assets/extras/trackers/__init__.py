"""Finished runs sent to other tools that keep results."""
