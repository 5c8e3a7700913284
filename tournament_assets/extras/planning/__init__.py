"""The number of prompts needed to separate entrants, computed before paying for them."""
