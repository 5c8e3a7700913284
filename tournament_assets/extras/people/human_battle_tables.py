"""An arena's battles and people's labels compared with a judge, as rows and as sentences."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from tournament_assets.extras.people.config_keys import Opinion, people_keys
from tournament_assets.extras.people.human_agreement import HumanAgreement
from tournament_assets.extras.people.judge_calibration import JUDGE
from tournament_assets.extras.people.measures import HUMAN_AGREEMENT
from tournament_assets.extras.people.methods import JUDGE_WEIGHT, POWERED
from tournament_assets.extras.people.raters import MIN_RATERS
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import (
    format_confidence,
    format_interval,
    format_plural,
    format_rating,
    join_names,
)
from tournament_assets.reports.claims import Statements
from tournament_assets.reports.figures.ladder import (
    axis_span,
    ladder_ticks,
    place_on_ladder,
)
from tournament_assets.reports.jury_tables import measured
from tournament_assets.reports.rating_method_tables import beside
from tournament_assets.reports.rendering import render_part
from tournament_assets.reports.report_tables import (
    HtmlText,
    Ladder,
    LadderBar,
    ReportSection,
    ReportTable,
    select_columns,
)
from tournament_assets.reports.sections import BattleLinks, first_address
from tournament_assets.tournament.asset_rows import (
    LeaderboardRow,
    MeasureRow,
    RatingRow,
)
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.trust.evidence import agreed

Row = TypeVar("Row", RatingRow, MeasureRow)
BASES = ("people", "judge", "both")
_NO_INTERVAL = "no interval"
_TEMPLATE = "people/templates/agreement.jinja"
_EDGE = 15.0
"""Per cent at either end of each of three narrow axes that carries no number."""


def say(part: str, *values: Any) -> str:
    """Return a part of the template with the sentences about people, filled in."""
    return " ".join(render_part(_TEMPLATE, part, *values))


def agreement_rows(
    agreement: HumanAgreement, *, min_kappa: float | None, dimension: str
) -> list[MeasureRow]:
    """Return how far the judge and an arena's people agree, as rows, the check's first.

    Args:
        min_kappa: Below this the check turns red; None if the config names no limit.
    """
    overall, decisive = agreement.overall, agreement.decisive
    measures: dict[str, tuple[str, Estimate]] = {
        "human_agreement_share": ("share", overall.share),
        "human_agreement_decisive": ("kappa", decisive.kappa),
        "human_agreement_decisive_share": ("share", decisive.share),
        "only_judge": ("count", Estimate.of_count(agreement.n_only_judge)),
        "only_people": ("count", Estimate.of_count(agreement.n_only_human)),
    }
    return [
        HUMAN_AGREEMENT.light(agreed(overall.kappa, overall.share), min_kappa, dimension=dimension),
        *(
            MeasureRow.of(each, dimension=dimension, measure=measure, unit=unit)
            for measure, (unit, each) in measures.items()
        ),
    ]


Leaders = Mapping[str, Sequence[LeaderboardRow]]


def people_sentences(
    people_ratings: Sequence[RatingRow],
    people_measures: Sequence[MeasureRow],
    leaderboard: Leaders,
    config: TournamentConfig,
) -> dict[str, tuple[str]]:
    """Describe, for every dimension with labels, whether people would agree on who is first.

    Args:
        people_ratings: Rows of the table, any dimensions.
        people_measures: Likewise.
        leaderboard: Rows of the table by dimension, best entrant first.
    """
    about = people_keys(config).labels.about
    labelled = {row.dimension for row in people_measures if row.measure == "count"}
    return {
        name: (_agreed(_of(people_ratings, name), _of(people_measures, name), rows, name, about),)
        for name, rows in leaderboard.items()
        if name in labelled
    }


def _of(rows: Sequence[Row], dimension: str) -> list[Row]:
    return [row for row in rows if row.dimension == dimension]


def _rated_by(rows: Sequence[RatingRow]) -> list[RatingRow]:
    """Return the ratings by labels, the judge and both, without an arena's."""
    return [row for row in rows if row.method == POWERED.name]


def _agreed(
    powered: Sequence[RatingRow],
    calibration: Sequence[MeasureRow],
    leaders: Sequence[LeaderboardRow],
    dimension: str,
    about: Opinion,
) -> str:
    statements = Statements.of(leaders, (), dimension=dimension)
    both = {row.entrant_id: row for row in _rated_by(powered) if row.basis == "both"}
    names = [row.entrant_id for row in (statements.leader, statements.runner_up) if row is not None]
    first, second = names if len(names) == 2 else ("", "")
    return say(
        "people",
        f"{_labels(calibration)} on {dimension}",
        _whose(calibration, about),
        first,
        second,
        _what_to_do(calibration, about),
        [row.entrant_id for row in both.values() if first in row.shown_above],
        all(name in both and both[name].rank is not None for name in names),
        first in both and second in both[first].shown_above,
    )


def _labels(calibration: Sequence[MeasureRow]) -> str:
    n_raters = _n_raters(calibration)
    people = "1 person" if n_raters == 1 else f"{n_raters} people"
    return f"{format_plural(_count(calibration, 'labels'), 'label')} of {people}"


def _n_raters(calibration: Sequence[MeasureRow]) -> int:
    return sum(row.measure == "rater" for row in calibration)


def _whose(calibration: Sequence[MeasureRow], about: Opinion) -> str:
    n_raters = _n_raters(calibration)
    if about == "people":
        return "people like this one" if n_raters == 1 else f"people like these {n_raters}"
    return "this person" if n_raters == 1 else f"these {n_raters} people"


def _what_to_do(calibration: Sequence[MeasureRow], about: Opinion) -> str:
    """Say what would settle it: more people, or else more labels."""
    if about == "people" and _n_raters(calibration) < MIN_RATERS:
        return f"ask at least {MIN_RATERS} people, or set labels.about to these_raters"
    return "label more"


def _count(calibration: Sequence[MeasureRow], name: str) -> int:
    return sum(row.n for row in calibration if row.measure == "count" and row.subject == name)


def judge_sentence(config: TournamentConfig, mode: Mode, judge_models: Collection[str]) -> str:
    """Name the judge that is compared with people: a model, or several together."""
    panel = [judge.model for judge in config.judges_of(mode)]
    others = sorted(set(judge_models).difference(panel))
    names = join_names([*(model for model in panel if model in judge_models), *others])
    is_jury = len(judge_models) > 1 and config.has_jury(mode)
    return say("judge", names, config.aggregation(mode) if is_jury else "")


def people_section(
    people_ratings: Sequence[RatingRow],
    people_measures: Sequence[MeasureRow],
    leaderboard: Leaders,
    *,
    config: TournamentConfig,
    mode: Mode,
    judge_models: Collection[str],
    links: BattleLinks,
) -> ReportSection | None:
    """Return a report's section on what people would say; None if they said nothing.

    Args:
        people_ratings: Rows of the table, all dimensions.
        people_measures: Likewise.
        leaderboard: Rows of the table by dimension, best entrant first.
        judge_models: The models that replied.
        links: Returns titles and addresses of the pages with a dimension's battles.
    """
    if not people_measures:
        return None
    sentences = people_sentences(people_ratings, people_measures, leaderboard, config)
    confidence = config.ratings.confidence
    interval = format_confidence(confidence)
    rated = {name: _of(people_ratings, name) for name in sentences}
    measured = {name: _of(people_measures, name) for name in sentences}
    return ReportSection(
        "Would people agree?",
        (
            *(sentence for lines in sentences.values() for sentence in lines),
            *(_how_far(name, rated[name], measured[name], confidence) for name in sentences),
            judge_sentence(config, mode, judge_models),
            *render_part(_TEMPLATE, "meaning", people_keys(config).labels.about),
        ),
        tuple(
            (name, _powered_table(rows, interval))
            for name, rows in rated.items()
            if _rated_by(rows)
        ),
        finding=join_names([f"{_labels(rows)} on {name}" for name, rows in measured.items()]),
        folds=_folds(measured, links, interval, people_keys(config).labels.about),
        ladders=tuple(
            _ladder(rows, name, interval) for name, rows in rated.items() if _rated_by(rows)
        ),
    )


def _folds(
    measured: Mapping[str, Sequence[MeasureRow]],
    links: BattleLinks,
    interval: str,
    about: Opinion,
) -> tuple[ReportSection, ...]:
    tables: dict[str, Callable[[Sequence[MeasureRow]], ReportTable]] = {
        "How far the judge says what people say": _agreement_table,
        "Wins as people would count them": _wins_table,
        "Where the judge errs": partial(_errors_table, links=links),
    }
    notes = render_part(_TEMPLATE, "folds", interval, about)
    folds = (
        ReportSection(
            title,
            (note,),
            tuple((name, table) for name, rows in measured.items() if (table := make(rows)).rows),
        )
        for (title, make), note in zip(tables.items(), notes, strict=True)
    )
    return tuple(fold for fold in folds if fold.tables)


def _how_far(
    dimension: str,
    powered: Sequence[RatingRow],
    calibration: Sequence[MeasureRow],
    confidence: float,
) -> str:
    by_both = (JUDGE_WEIGHT.name, "both")
    weights = (row.rating for row in powered if (row.method, row.basis) == by_both)
    right = (row.estimate for row in calibration if row.measure == "right")
    counts = Counter({row.subject: row.n for row in calibration if row.measure == "count"})
    return say("how_far", dimension, counts, next(right, None), next(weights, None), confidence)


def _by_basis(
    rows: Sequence[RatingRow],
) -> dict[str, dict[str, RatingRow]]:
    """Return the rows by entrant and basis, best first on basis both, or else on the judge's."""
    by_entrant: dict[str, dict[str, RatingRow]] = {}
    for row in _rated_by(rows):
        by_entrant.setdefault(row.entrant_id, {})[row.basis] = row

    def order(name: str) -> tuple[float, float]:
        both, judge = (
            float("-inf")
            if (row := by_entrant[name].get(basis)) is None or row.rating is None
            else row.rating
            for basis in ("both", "judge")
        )
        return -both, -judge

    return {name: by_entrant[name] for name in sorted(by_entrant, key=order)}


def _ladder(rows: Sequence[RatingRow], dimension: str, interval: str) -> Ladder:
    ends = [
        value
        for row in _rated_by(rows)
        for value in (row.rating, row.low, row.high)
        if value is not None
    ]
    span = axis_span(ends)
    lines = tuple(
        (name, tuple(_bar(of_entrant.get(basis), span) for basis in BASES))
        for name, of_entrant in _by_basis(rows).items()
    )
    return Ladder(
        dimensions=BASES,
        lines=lines,
        ticks=ladder_ticks(span, edge=_EDGE),
        caption=(
            f"Ratings on {dimension} (dot) with their {interval} intervals (bar) by people's "
            "labels alone, by the judge alone, and by both. "
            "Two entrants that share a letter in a column are not told apart there; the "
            "leaderboard shows whom the judge tells apart."
        ),
    )


def _bar(row: RatingRow | None, span: tuple[float, float]) -> LadderBar:
    if row is None or row.rating is None:
        return LadderBar("no rating")
    rated, has_interval = row.estimate, row.low is not None and row.high is not None
    if not has_interval:
        rated = replace(rated, low=rated.value, high=rated.value)
    return LadderBar(
        text=format_rating(row.rating),
        interval=format_interval(row.low, row.high, absent=_NO_INTERVAL),
        group=row.group or "" if has_interval else "",
        place=place_on_ladder(rated, span),
    )


def _powered_table(rows: Sequence[RatingRow], interval: str) -> ReportTable:
    lines = _by_basis(rows)
    by_basis = {
        basis: {
            name: of_entrant[basis] for name, of_entrant in lines.items() if basis in of_entrant
        }
        for basis in BASES
    }
    of_both = {"letters": "group", "places": "places", "labelled prompts": "n", "note": "note"}
    return ReportTable.of(
        [next(iter(of_entrant.values())) for of_entrant in lines.values()],
        {
            **select_columns(RatingRow, "entrant_id"),
            **{
                f"{basis} ({interval} interval)": beside(by_basis[basis], "rating_and_interval")
                for basis in BASES
            },
            **{title: beside(by_basis["both"], name) for title, name in of_both.items()},
        },
    )


def _agreement_table(rows: Sequence[MeasureRow]) -> ReportTable:
    return ReportTable.of(
        [row for row in rows if row.measure in ("right", "agreement")],
        {
            "who": _who,
            "source": lambda row: row.stratum or "all",
            **select_columns(MeasureRow, "n"),
            "same verdict (interval)": measured(rows, "right", "agreement"),
            "kappa (interval)": measured(rows, "kappa"),
            "note": measured(rows, "kappa", "right", "agreement", show="note"),
        },
        n_labels=2,
        subject=(0,),
    )


def _who(row: MeasureRow) -> str:
    if row.subject is None:
        return "all labels and the judge"
    return f"{row.subject} and {'the judge' if row.other == JUDGE else row.other}"


def _wins_table(rows: Sequence[MeasureRow]) -> ReportTable:
    return ReportTable.of(
        [row for row in rows if row.measure == "wins"],
        {
            "entrant": lambda row: row.subject,
            "by the judge": measured(rows, "wins_by_judge", show="share"),
            "as people would (interval)": measured(rows, "wins"),
            "people say so where the judge does": measured(
                rows, "wins_where_judge_says_so", show="share"
            ),
            "and where it does not": measured(rows, "wins_where_judge_does_not", show="share"),
            "labels": measured(rows, "wins", show="n"),
            "note": measured(rows, "wins", show="note"),
        },
    )


def _errors_table(rows: Sequence[MeasureRow], *, links: BattleLinks) -> ReportTable:

    def prompt(each: tuple[MeasureRow, float | None]) -> HtmlText:
        row, name = each[0], str(each[0].prompt_id)
        pair = {"entrant": str(row.subject), "versus": str(row.other)}
        label = f"Read the pair of {row.subject} and {row.other} on {name}"
        return HtmlText(name, href=first_address(links(row.dimension, [name], **pair)), label=label)

    errors = [row for row in rows if row.measure == "error"]
    by_judge = [row.value for row in rows if row.measure == "error_by_judge"]
    return ReportTable.of(
        zip(errors, by_judge, strict=True),
        {
            "prompt": prompt,
            "entrants": lambda each: f"{each[0].subject} and {each[0].other}",
            "people say": lambda each: _said(each[0], each[0].value),
            "the judge says": lambda each: _said(*each),
            "labels": lambda each: each[0].n,
        },
        n_labels=4,
        subject=(0, 1),
    )


def _said(row: MeasureRow, share: float | None) -> str | None:
    """Describe who won, given the first entrant's share."""
    if share is None or share == 0.5:
        return "nobody" if share is not None else None
    name = row.subject if share > 0.5 else row.other
    return str(name) if share in (0, 1) else f"rather {name}"
