"""The commands that this extra adds."""

ROWS = {
    "track": (
        "extras.trackers.command:track_command",
        "Send a run to MLflow or an OpenTelemetry collector.",
    ),
}
