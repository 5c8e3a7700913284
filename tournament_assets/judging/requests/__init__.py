"""What the judge is asked, and what its replies mean."""
