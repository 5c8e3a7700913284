"""The commands that this extra adds."""

ROWS = {
    "verify": (
        "extras.verify.command:verify_command",
        "Name the files of a run that changed since it was written.",
    ),
}
