"""The asset graph as rows, and the two engines that run it: Dagster, and plain calls in order."""
