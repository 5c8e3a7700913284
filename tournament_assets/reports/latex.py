"""The leaderboard as a LaTeX table in the style of booktabs."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tournament_assets.reports.formatting import (
    ABSENT,
    format_interval,
    format_share,
    show_directions,
)
from tournament_assets.reports.separation import is_rated

Row = Mapping[str, Any]
"""A row of table "leaderboard"."""

_NOTE = (
    "% Needs \\usepackage{booktabs}. Order interval: order noise. Sampling interval: sampling\n"
    "% error, whole prompts resampled. Entrants that share a letter are not separated.\n"
)


def leaderboard_latex(leaderboard: Mapping[str, Sequence[Row]]) -> str:
    """Return one `tabular` with a block of lines for each dimension.

    Whatever comes from outside is escaped: the ten signs that LaTeX does not take literally.

    Args:
        leaderboard: Rows of table "leaderboard" by dimension, best entrant first.
    """
    lines = [_cells(row) for rows in leaderboard.values() for row in rows]
    frame = pd.DataFrame(lines)
    # pandas escapes LaTeX's own signs; line breaks would end a comment or begin a paragraph.
    styler = frame.map(lambda text: show_directions(" ".join(text.split()))).style.hide(
        axis="index"
    )
    styler = styler.format(escape="latex").format_index(escape="latex", axis="columns")
    text = styler.to_latex(hrules=True, column_format="lrlrrrlrr")
    return _NOTE + _divide(text, [len(rows) for rows in leaderboard.values()])


def _cells(row: Row) -> dict[str, str]:
    has_rating = is_rated(row)
    has_place = row["n_entrant_matches"] and row["rank"] is not None
    sem = ABSENT if row["sem"] is None else f"{row['sem']:.1f}"
    return {
        "dimension": row["dimension"],
        "rank": str(row["rank"]) if has_place else ABSENT,
        "entrant": row["entrant_id"],
        "mean ± SEM": f"{row['mean']:.1f} ± {sem}" if has_rating else ABSENT,
        "order": _interval(row, "order") if has_rating else ABSENT,
        "sampling": _interval(row, "sampling") if has_rating else ABSENT,
        "group": row["group"] or ABSENT,
        "matches": str(row["n_entrant_matches"]),
        "win rate": format_share(row["win_rate"]),
    }


def _interval(row: Row, name: str) -> str:
    return format_interval(row[f"{name}_low"], row[f"{name}_high"], absent="unbounded")


def _divide(text: str, block_sizes: Sequence[int]) -> str:
    """Put a rule between the blocks of lines of the body."""
    head, _, rest = text.partition("\\midrule\n")
    body, bottom, tail = rest.partition("\\bottomrule\n")
    lines = body.splitlines(keepends=True)
    blocks, done = [], 0
    for size in block_sizes:
        blocks.append("".join(lines[done : done + size]))
        done += size
    rule = "\\midrule\n"
    return head + rule + rule.join(blocks) + bottom + tail
