"""Claims about results that other tools wrote: scores of systems by item, and judges' verdicts."""
