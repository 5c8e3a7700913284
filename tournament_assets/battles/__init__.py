"""Battles of this project and of other tools: reading, rating, writing."""
