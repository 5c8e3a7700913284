"""Files that something else wrote: responses, answers and samples, in whatever table they come."""
