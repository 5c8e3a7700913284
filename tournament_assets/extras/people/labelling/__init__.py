"""Asking people which response of a pair is better: which pairs, on which page, by which server."""
