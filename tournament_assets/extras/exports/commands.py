"""The commands that this extra adds."""

ROWS = {
    "export": ("extras.exports.command:export_command", "Write a run as LaTeX, figures or tables."),
}
"""The commands that this extra adds."""
