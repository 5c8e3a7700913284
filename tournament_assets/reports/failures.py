"""What the judge was asked about in vain, as people read it before they ask again."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tournament_assets.judging.infrastructure import FailureClass

if TYPE_CHECKING:
    from rich.console import Console

_SENTENCES = {
    FailureClass.ERRORED: "the service answered with an error",
    FailureClass.EXPIRED: "the batch ran out of time",
    FailureClass.CANCELED: "the batch was canceled",
    FailureClass.REFUSED: "the judge declined to judge",
    FailureClass.UNREADABLE: "the reply holds no verdict",
    FailureClass.CUT_OFF: "the reply reached its token cap",
    FailureClass.EMPTY: "the reply says nothing",
    FailureClass.INFRASTRUCTURE: "a machine on the way answered in the judge's place",
    FailureClass.UNPARSABLE: "the line of the results that should hold the reply is not JSON",
    FailureClass.ARCHIVED: "the service no longer keeps the result",
}


def print_failures(
    failures: Iterable[tuple[str, str, FailureClass]], console: "Console", *, n_presentations: int
) -> None:
    """Print how many presentations failed, by dimension, entrant and class.

    Args:
        failures: Dimension, entrant and class; a presentation counts for both its entrants.
        console: Where to.
        n_presentations: How many presentations they are.
    """
    from rich.table import Table

    counts = Counter(failures)
    if not counts:
        console.print("Nothing to judge again: whatever was asked has a verdict or is under way.")
        return
    table = Table(box=None, title=f"{n_presentations} presentations failed", title_justify="left")
    for header in ("dimension", "entrant", "class", "presentations", "because"):
        table.add_column(header, justify="right" if header == "presentations" else "left")
    for (dimension, entrant, failure), count in sorted(counts.items()):
        table.add_row(dimension, entrant, failure.value, f"{count:,}", _SENTENCES[failure])
    console.print(table)
