"""Base models, their prompts and their files."""
