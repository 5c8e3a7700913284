"""How many prompts it takes to tell entrants apart, before they are paid for."""
