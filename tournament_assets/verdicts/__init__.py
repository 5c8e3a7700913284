"""From pairs to verdicts: asking the judges within the budget, stopping early, weighing a jury."""
