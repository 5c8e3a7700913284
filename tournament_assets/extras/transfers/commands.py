"""The commands that this extra adds."""

ROWS = {
    "ledger": ("", "Export, import or recover judgments."),
    "ledger export": (
        "extras.transfers.command:ledger_export_command",
        "Write a mode's replies to files.",
    ),
    "ledger import": (
        "extras.transfers.command:ledger_import_command",
        "Import the replies in such files.",
    ),
    "ledger recover": (
        "extras.transfers.command:ledger_recover_command",
        "Take lost replies back from the service.",
    ),
}
