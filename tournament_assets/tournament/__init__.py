"""The nouns of a tournament and their validation; knows nothing but the foundation."""
