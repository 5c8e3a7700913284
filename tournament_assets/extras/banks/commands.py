"""The commands that this extra adds."""

ROWS = {
    "bank": ("extras.banks.command:bank_group", "Check, build or import a prompt bank."),
}
