"""The commands that this extra adds."""

ROWS = {
    "claims": (
        "extras.results.command:claims_command",
        "Say which system is better in other tools' results.",
    ),
    "judge audit": (
        "extras.results.judge_audit:judge_audit_command",
        "Say whether a judge can be trusted, by its verdicts in files.",
    ),
}
"""The commands that this extra adds."""
