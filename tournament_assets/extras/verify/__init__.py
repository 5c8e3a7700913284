"""A finished run computed again from its verdicts, and its documents held against that."""
