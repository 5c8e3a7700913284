"""Prompts and battles of other tools: banks made from published questions, formats of battles."""
