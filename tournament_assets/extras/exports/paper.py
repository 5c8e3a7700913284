"""The files of a run for a paper: a table, a figure, the method and its limitations, in LaTeX.

`paper.tex` reads the others, which are made to be read by an article's own file, too. Numbers are
those of the run; siunitx writes them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tournament_assets.foundation.formatting import expected_share
from tournament_assets.reports.claims import against_ratings
from tournament_assets.reports.figures.canvas import to_pdf
from tournament_assets.reports.figures.ladder import draw_ladders, misdrawn
from tournament_assets.reports.leaderboard import leaderboard_latex
from tournament_assets.reports.rendering import render_sentences
from tournament_assets.tournament.asset_rows import LeaderboardRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.trust.lights import TrustState

_TEXTS = ("methods", "limitations", "paper")


def paper_files(
    leaderboard: Mapping[str, Sequence[LeaderboardRow]],
    *,
    manifest: Mapping[str, Any],
    settings: RatingSettings,
    settled: int,
) -> dict[str, bytes]:
    """Return the files by name.

    Args:
        leaderboard: Rows of table "leaderboard" by dimension, best entrant first.
        settled: How many pairs were settled, all dimensions.
    """
    percent = f"{100 * settings.confidence:g}"
    missed = 100 * len(leaderboard) * (1 - settings.confidence)
    values = {
        "title": f"{manifest['tournament']}, {manifest['mode']}",
        "entrants": manifest["entrants"],
        "dimensions": list(leaderboard),
        "prompts": manifest["selected_prompts"],
        "samples": manifest.get("samples_of_each_prompt", 1),
        "settled": settled,
        "judge": manifest["judge"],
        "judge_model": manifest["judge_model"] or "none",
        "is_language_model": all(
            service.is_language_model or service.label not in manifest["judge"]
            for service in SERVICES.values()
        ),
        "stops_early": any(row.stops for rows in leaderboard.values() for row in rows),
        "outages": manifest["outages"],
        "red": [
            f"{measure} on {dimension}"
            for dimension, lights in manifest["trust"].items()
            for measure, state in lights.items()
            if state == TrustState.RED
        ],
        "resampling": settings.resampling,
        "percent": percent,
        "chance": f"{min(100.0, missed):.0f}",
        "within": settings.equivalent_within,
        "shares": [
            f"{100 * expected_share(end):.1f}"
            for end in (-settings.equivalent_within, settings.equivalent_within)
        ],
        "against_ratings": sum(len(against_ratings(rows)) for rows in leaderboard.values()),
        "misdrawn": sum(len(misdrawn(rows)) for rows in leaderboard.values()),
    }
    return {
        "leaderboard.tex": leaderboard_latex(leaderboard).encode(),
        "figure1.pdf": to_pdf(draw_ladders(leaderboard)),
        **{
            f"{name}.tex": "\n".join(
                [*render_sentences(f"exports/templates/{name}.tex.jinja", **values), ""]
            ).encode()
            for name in _TEXTS
        },
    }
