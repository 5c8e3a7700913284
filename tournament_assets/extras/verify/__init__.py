"""Says which files of a finished run are no longer as they were written."""
