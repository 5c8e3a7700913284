"""The asset graph; with `definitions` and `launching` the only place that imports Dagster."""

import gc

import dagster as _dagster  # noqa: F401  # what it loads is there before what is below freezes it

# Dagster's modules stay as long as the process: later garbage collections need not look through
# them, which took a tenth of the time that definitions take to load.
gc.freeze()
