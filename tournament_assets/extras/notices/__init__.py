"""Notices of failed runs, by e-mail and Slack."""
