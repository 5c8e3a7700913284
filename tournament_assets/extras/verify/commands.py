"""The commands that this extra adds."""

ROWS = {
    "verify": ("extras.verify.command:verify_command", "Compute a finished run's numbers again."),
}
