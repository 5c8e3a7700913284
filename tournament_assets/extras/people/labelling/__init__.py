"""Asking people which response of a pair is better: the sample of pairs, the page, the server."""
