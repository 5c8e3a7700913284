"""The numbers of six small tournaments and archives as they were stored once, which must not move.

`numbers/<case>/<table>.csv` has them. After a change on purpose: `python -m tests.golden.freeze`.
"""
