"""Archives of runs that another harness scored: described, read, audited, judged again, compared.

`harness` says what a reader is, `clawbench` is one, and all else knows no harness. The commands are
in `cli/archives.py`. It knows no Dagster: who calls it says which ledger and which judging service.
"""
