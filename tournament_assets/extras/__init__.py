"""What most tournaments do not use: a folder each, which nothing else knows.

An extra may import all of the core and no other extra. What it adds, the core reads as rows
(`tournament/extras.py`); without its folder the core runs as before.
"""
