"""The commands that this extra adds."""

ROWS = {
    "site": ("extras.site.command:site_command", "Build static pages over all runs."),
}
