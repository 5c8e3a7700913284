"""What surrounds a run: price estimates, preflight checks, provenance, and ledger transfers."""
