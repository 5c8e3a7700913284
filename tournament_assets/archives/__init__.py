"""Archives of runs that another harness scored: described, read, audited, judged again, compared.

The whole feature, from the YAML that describes an archive to the report on it; the commands are in
`cli/archives.py`. It knows no Dagster: who calls it says which ledger and which judging service.
"""
