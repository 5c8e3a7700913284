"""The commands that this extra adds."""

ROWS = {
    "plan": ("extras.planning.command:plan_command", "Compute how many prompts it takes."),
}
