"""The numbers of small tournaments and archives as they were stored once, which must not move.

`numbers/<case>/<table>.csv` beside a case's module has them; `python -m tests.golden.freeze` writes
them anew, after a change on purpose.
"""
