"""Computes a finished run again from its verdicts, and compares its files with the result."""
