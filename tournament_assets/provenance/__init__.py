"""After a run: what it was made of, what it cost, and the manifest that says so."""
