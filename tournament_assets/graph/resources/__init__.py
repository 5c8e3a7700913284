"""Resources, IO managers and executors."""
