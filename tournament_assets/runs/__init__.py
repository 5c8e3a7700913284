"""A run before, after and behind it: its price, what it needs, what it was made of."""
