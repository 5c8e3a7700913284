"""Prices, estimates and budgets."""
