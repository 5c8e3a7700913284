"""The Message Batches API."""
