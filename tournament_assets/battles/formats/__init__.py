"""One module for each format of battle files, or for each family."""
