"""The asset graph; with `definitions` and `launching` the only place that imports Dagster."""
