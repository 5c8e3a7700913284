"""An extension with a row of every kind."""
