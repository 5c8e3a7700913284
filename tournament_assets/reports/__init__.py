"""Results as tables, figures, Markdown and HTML."""
