"""Static pages over all finished runs."""
