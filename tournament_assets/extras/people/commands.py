"""The commands that this extra adds."""

ROWS = {
    "label": ("extras.people.command:label_group", "Have people compare responses."),
}
