"""Services that sell tokens: one folder each."""
