"""Judging in rounds, in which a pair of entrants stops once it is known which is ahead."""
