"""The forms in which a finished run can be written, each from what its directory holds alone.

A function returns the files of its form by relative path; its docstring says what they are.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from tournament_assets.extras.exports.paper import paper_files
from tournament_assets.python_api import Run
from tournament_assets.reports.claims import judges_of
from tournament_assets.reports.figures.figures import EntrantEconomy, figure_files
from tournament_assets.reports.rendering import render_template
from tournament_assets.reports.report_tables import table_csv
from tournament_assets.storage.tables import encode_parquet, make_table, rows_of
from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow, by_dimension


def csv(run: Run) -> dict[str, bytes]:
    """Every settled pair as battles.csv."""
    battles = run.battles.to_dict("split")
    return {"battles.csv": table_csv(battles["columns"], battles["data"])}


def every_eval_ever(run: Run) -> dict[str, bytes]:
    """Each entrant's ratings as a record of Every Eval Ever."""
    rated: dict[str, list[LeaderboardRow]] = {}
    for row in rows_of(LeaderboardRow, run.frame):
        if row.rating is not None:
            rated.setdefault(row.entrant_id, []).append(row)
    confidence, finished_at = run.rating_settings.confidence, run.manifest["finished_at"]
    values = {
        "manifest": run.manifest,
        "confidence": confidence,
        "when": str(int(datetime.fromisoformat(finished_at).timestamp())),
    }
    form = "exports/templates/every_eval_ever.json.jinja"
    return {
        f"every_eval_ever/{name}.json": render_template(
            form, entrant=name, rows=rows, **values
        ).encode()
        for name, rows in rated.items()
    }


def figures(run: Run) -> dict[str, bytes]:
    """The pictures of the report as SVG."""
    rows = [*rows_of(LeaderboardRow, run.frame)]
    files = figure_files(
        leaderboard=by_dimension(rows),
        win_rates=by_dimension(rows_of(WinRateRow, run.win_rates)),
        judge_label=judges_of(rows),
        equivalent_within=run.rating_settings.equivalent_within,
        economies=[EntrantEconomy(**economy) for economy in run.manifest["economies"]],
    )
    return {f"figures/{name}": content for name, content in files.items()}


def paper(run: Run) -> dict[str, bytes]:
    """An article's table, figure, method and limitations in LaTeX."""
    files = paper_files(
        by_dimension(rows_of(LeaderboardRow, run.frame)),
        manifest=run.manifest,
        settings=run.rating_settings,
        settled=len(run.battles),
    )
    return {f"paper/{name}": content for name, content in files.items()}


def parquet(run: Run) -> dict[str, bytes]:
    """The leaderboard and the win rates, with the types of their columns."""
    pairs = [*rows_of(WinRateRow, run.win_rates)]
    return {
        "leaderboard.parquet": encode_parquet(LeaderboardRow, run.frame),
        "win_rates.parquet": encode_parquet(WinRateRow, make_table(WinRateRow, pairs)),
    }


def rubrics(run: Run) -> dict[str, bytes]:
    """The texts that told the judge how to judge."""
    texts = run.manifest["rubrics"].items()
    return {f"rubrics/{dimension}.txt": f"{text}\n".encode() for dimension, text in texts}


FORMS: Mapping[str, Callable[[Run], Mapping[str, bytes]]] = {
    form.__name__: form for form in (csv, every_eval_ever, figures, paper, parquet, rubrics)
}
"""The forms by the name that `--to` takes."""
