"""Moves judgments between ledgers, reads those of earlier caches, and takes lost ones back."""
