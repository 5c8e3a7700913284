"""What is done, without Dagster: use cases on plain values."""
