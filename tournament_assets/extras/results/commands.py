"""The commands that this extra adds."""

ROWS = {
    "claims": (
        "extras.results.command:claims_command",
        "Say which system is better in other tools' results.",
    ),
}
"""The commands that this extra adds."""
