"""Pages that are served to people: Dagster's UI, and who may use what is served."""
