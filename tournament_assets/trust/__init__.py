"""The trust panel: every measure of the judge, with a light and what to do about it."""
