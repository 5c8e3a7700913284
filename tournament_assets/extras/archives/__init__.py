"""Archives of runs that another harness scored: described, read, audited, judged again, compared.

`harness` defines readers, `clawbench` is one, and nothing else depends on a harness. The commands
are in `command.py`. It does not use Dagster: the caller passes the ledger and the judging service.
"""
