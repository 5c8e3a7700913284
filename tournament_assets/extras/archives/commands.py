"""The commands that this extra adds."""

ROWS = {
    "archive": (
        "extras.archives.command:archive_group",
        "Audit, judge again and compare another harness's scored runs.",
    ),
}
