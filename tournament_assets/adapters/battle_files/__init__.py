"""Battle files of this project and of other tools: one module for each format or family."""
