"""Before a run: what is there already, what is missing, and what it will cost."""
