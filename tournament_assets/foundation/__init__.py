"""What every floor stands on: errors, estimates, texts, fingerprints, and the door to extras."""
