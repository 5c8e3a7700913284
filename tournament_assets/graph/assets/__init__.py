"""The assets and their checks."""
