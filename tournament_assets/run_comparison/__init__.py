"""Two finished runs side by side: what an edit changed, and whether it matters."""
