"""The numbers of six small tournaments and archives as they were stored once, which must not move.

`numbers/<case>/<table>.csv` holds them, `inputs/` what the cases are made from.
After a change on purpose: `python -m tests.golden.freeze [case]`, which prints what moved.
"""
