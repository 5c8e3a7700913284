"""The report of a run, and the files of its directory."""
