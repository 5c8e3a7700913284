"""From pairs to verdicts: asking judges within the budget, at once or in rounds, and juries."""
