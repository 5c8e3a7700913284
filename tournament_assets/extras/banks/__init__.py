"""Prompts and battles from other tools: banks of published questions, and battle formats."""
