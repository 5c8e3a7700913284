"""Prompt banks made from published sets of multiple-choice questions."""
