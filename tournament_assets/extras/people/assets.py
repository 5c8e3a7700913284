"""The assets of what people say: battles of an arena that a config names, and labels of pairs.

Ratings by people never enter `elo_ratings`. People label pairs on one dimension or in general;
general labels are used for a dimension that has none of its own. A label counts only while the
texts are the ones that were labelled.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
import pyarrow as pa

from tournament_assets.battles.columns import battles_of, encode_battle_table, make_battle_table
from tournament_assets.extras.people import human_battle_tables as tables
from tournament_assets.extras.people.arena import (
    BASES,
    ArenaPlaces,
    HumanBattles,
    battles_that_count,
    load_human_battles,
    on_prompts,
    place_in_arena,
)
from tournament_assets.extras.people.config_keys import people_keys
from tournament_assets.extras.people.human_agreement import HumanAgreement, measure_human_agreement
from tournament_assets.extras.people.judge_calibration import CalibratedPair, calibrate_judge
from tournament_assets.extras.people.labelled_pairs import (
    LabelledPair,
    Vote,
    label_pairs,
    votes_of_battles,
)
from tournament_assets.extras.people.measures import (
    HUMAN_AGREEMENT,
    SELF_PREFERENCE_BY_LABELS,
)
from tournament_assets.extras.people.prediction_powered import (
    PoweredFit,
    label_worth,
    powered_rows,
    rate_on_every_basis,
)
from tournament_assets.foundation.errors import InputError, LedgerError
from tournament_assets.foundation.fingerprints import fingerprint, fingerprint_bytes
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.graph.assets.observed_inputs import InputVersion, ledger_files
from tournament_assets.graph.assets.trust import check_light, self_preferences
from tournament_assets.graph.outputs import (
    Made,
    Markdown,
    Metadata,
    known,
    markdown_table,
)
from tournament_assets.graph.rows import MODE, MODE_BY_DIMENSION, AssetRow, Step, Where
from tournament_assets.graph.settings import trusting_settings
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.provenance.origins import name_models
from tournament_assets.storage.tables import (
    AnyTable,
    PairKey,
    StoredTable,
    derive_schema,
    encode_parquet,
    judge_models_of,
    pair_key,
    rows_of,
    to_arrow,
)
from tournament_assets.tournament.asset_rows import (
    BattleRow,
    MatchRow,
    MeasureRow,
    RatingRow,
    VerdictRow,
)
from tournament_assets.tournament.battles import battles_from_judgments, settings_of_run
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.prompts import answer_key
from tournament_assets.tournament.verdicts import Judgment, Outcome
from tournament_assets.verdicts.judge_requests import LedgerAccess, open_ledger
from tournament_assets.verdicts.table_rows import judgments_of

if TYPE_CHECKING:
    from tournament_assets.extras.people.label_records import Label, LabelRecords
    from tournament_assets.ledger import Ledger

_MOST_LISTED = 100
_RATING_COLUMNS = ("entrant_id", "basis", "rating", "low", "high", "group", "n", "note")
_MEASURE_COLUMNS = ("measure", "subject", "other", "stratum", "n", "value", "low", "high")


def has_human_battles(plan: TournamentPlan) -> bool:
    """Return whether a tournament's config names a file of human battles."""
    return people_keys(plan.config).human_battles is not None


def people_rating_settings(plan: TournamentPlan) -> JsonObject:
    """Return what ratings by people depend on: how ratings are made, and whose opinion is meant."""
    return {**plan.config.ratings.changed(), **people_keys(plan.config).labels.changed()}


def people_measure_settings(plan: TournamentPlan) -> Any:
    """Return the settings that the measures of the judge by people depend on."""
    return [*trusting_settings(plan), _min_kappa(plan), people_keys(plan.config).labels.changed()]


def _min_kappa(plan: TournamentPlan) -> float | None:
    arena = people_keys(plan.config).human_battles
    return None if arena is None else arena.min_kappa


def human_battles(plan: TournamentPlan) -> Made[Annotated[pd.DataFrame, BattleRow]]:
    """The battles of an arena that people decided, among those who fought enough of them.

    Entrants with too few are left out and listed, as is everything else that is left out.
    """
    arena, human = people_keys(plan.config).human_battles, load_human_battles(plan)
    if arena is None or human is None:
        raise InputError("the config names no file of human battles; expected human_battles.file")
    frame = _frame_of(human.table)
    return Made(
        frame,
        metadata={
            "battles": len(frame),
            **_left_out(human, min_battles=arena.min_battles),
            "battles_by_entrant": _battles_by_entrant(plan.config, human),
        },
        # Hashed as a file: rows as objects would take a gigabyte for the largest arenas.
        version=fingerprint_bytes(encode_parquet(BattleRow, frame)),
    )


def _left_out(human: HumanBattles, *, min_battles: int) -> Metadata:
    return {
        "entrants": len(human.entrants),
        "entrants_left_out": len(human.too_few),
        "battles_left_out": human.n_with_too_few + sum(human.left_out.values()),
        "too_few_battles": dict(human.too_few),
        "left_out_by_reason": dict(human.left_out),
        "columns_of_the_file": human.note or "all that may matter are used",
        "what_it_means": tables.say("left_out", human.too_few, human.n_with_too_few, min_battles),
    }


def _battles_by_entrant(config: TournamentConfig, human: HumanBattles) -> Markdown:
    rows = [
        {
            "entrant_id": name,
            "battles": count,
            "source": "evaluated" if name in config.entrant_ids else "human",
        }
        for name, count in sorted(human.entrants.items(), key=lambda entry: -entry[1])
    ]
    return markdown_table(rows, ("entrant_id", "source", "battles"), limit=_MOST_LISTED)


def people_ratings(
    step: Step,
    judge_verdicts: StoredTable,
    match_list: StoredTable,
    ledger: LedgerAccess,
    human_battles: pd.DataFrame | None = None,
) -> Made[list[RatingRow]]:
    """Ratings as people would give them: the judge's verdicts, corrected by people's labels.

    Beside them stand the ratings by those labels alone and by the judge alone, whose intervals
    ignore the judge's errors. Without labels, the votes of an arena are taken, which must be a
    random draw of the judged pairs; without either there are no rows. Where pairs stopped early, a
    pair of the tail stands for several. An arena's battles also rate everybody beside its models:
    by people, by the judge, and by both, which places the entrants inside the arena.
    """
    config = step.plan.config
    labels = _labels(step, match_list, ledger)
    pairs = _labelled_pairs(step, judge_verdicts, labels, human_battles)
    fits = _rate(config, pairs)
    settings = settings_of_run(config, mode=step.mode)
    rows = powered_rows(fits, dimension=step.name, settings=settings)
    places = None if human_battles is None else _arena_places(step, judge_verdicts, human_battles)
    return Made(
        [*rows, *(places.rows if places else ())],
        metadata={
            "labelled_pairs": sum(pair.labelled is not None for pair in pairs),
            "judged_pairs": len(pairs),
            **known({"weight_of_the_judge": fits["both"].weight if "both" in fits else None}),
            "ratings": markdown_table(rows, _RATING_COLUMNS, limit=_MOST_LISTED),
            **(_arena_metadata(places) if places else {}),
            "judge": config.label_of(step.mode),
            "judge_model": name_models(judge_models_of(judge_verdicts)),
        },
    )


def _arena_places(step: Step, verdicts: StoredTable, human: pd.DataFrame) -> ArenaPlaces:
    config = step.plan.config
    # No rating contains the judge's name, so the configured one will do for all battles.
    model = config.lead(step.mode).model
    judged = battles_from_judgments(judgments_of(verdicts), judge_model=model)
    return place_in_arena(
        make_battle_table(judged),
        _battles_on(config, step.name, human),
        dimension=step.name,
        settings=settings_of_run(config, mode=step.mode),
    )


def _arena_metadata(places: ArenaPlaces) -> Metadata:
    anchors = places.anchors
    rows = {basis: [row for row in places.rows if row.basis == basis] for basis in BASES}
    return {
        "scale": tables.say("scale", {name: anchors[name] for name in ("judge", "both")}),
        **{f"battles_{basis}": places.n_battles[basis] for basis in BASES},
        **{
            f"arena_{basis}": markdown_table(rows[basis], _RATING_COLUMNS, limit=_MOST_LISTED)
            for basis in BASES
        },
        "notes": Markdown("\n".join(f"- {note}" for note in places.notes) or "nothing to note"),
    }


def _labels(step: Step, matches: StoredTable, ledger: LedgerAccess) -> "HumanLabels":
    with ledger.open() as opened:
        labels = read_labels(_records(opened), step.plan, step.mode, step.name)
    return labels_as_judged(labels, matches)


def _labelled_pairs(
    step: Step, verdicts: StoredTable, labels: "HumanLabels", human: pd.DataFrame | None
) -> tuple[LabelledPair, ...]:
    """Return the judged pairs with labels, or else with votes; empty if there are neither."""
    judged = judgments_of(verdicts)
    if labels.labels:
        # Nobody is asked about two copies of one text, so these pairs are not drawn from.
        different = [each for each in judged if each.outcome is not Outcome.SAME_TEXT]
        return label_pairs(different, labels.votes)
    if human is None:
        return ()
    prompt_ids = {judgment.prompt_id for judgment in judged}
    battles = on_prompts(_battles_on(step.plan.config, step.name, human), prompt_ids)
    return label_pairs(judged, votes_of_battles(battles_of(battles)))


def _rate(config: TournamentConfig, pairs: tuple[LabelledPair, ...]) -> Mapping[str, PoweredFit]:
    return rate_on_every_basis(
        pairs,
        entrants=config.entrant_ids,
        confidence=config.ratings.confidence,
        about=people_keys(config).labels.about,
        initial_rating=config.ratings.initial_rating,
    )


def people_measures(
    step: Step,
    judge_verdicts: StoredTable,
    match_list: StoredTable,
    ledger: LedgerAccess,
    human_battles: pd.DataFrame | None = None,
) -> Made[list[MeasureRow]]:
    """How far the judge agrees with people on the same pairs, by source and by person.

    Labels: the share of right verdicts, kappa of every two people and of each with the judge, every
    entrant's wins corrected for the judge's errors, and ten pairs where it errs, to read. Votes of
    an arena: kappa where both compared two entrants on one prompt. Arena voters did not see the
    rubric, so a disagreement is not always the judge's mistake.
    """
    config = step.plan.config
    labels = _labels(step, match_list, ledger)
    rows, metadata = _calibration(step, judge_verdicts, labels)
    rows += _self_preference(step, judge_verdicts, labels)
    if human_battles is not None:
        agreement, numbers = _human_agreement(step, judge_verdicts, human_battles)
        rows, metadata = [*agreement, *rows], {**numbers, **metadata}
    metadata = {
        **metadata,
        "measures": markdown_table(rows, _MEASURE_COLUMNS, limit=_MOST_LISTED),
        "judge": config.label_of(step.mode),
        "judge_model": name_models(judge_models_of(judge_verdicts)),
    }
    checks = [check_light(name, rows, where=step.where) for name in people_checks(step.plan)]
    return Made(rows, metadata=metadata, checks=checks)


def people_checks(plan: TournamentPlan) -> Mapping[str, str]:
    """Return the check of the judge against people's votes, if a config names a limit for it."""
    if _min_kappa(plan) is None:
        return {}
    return {HUMAN_AGREEMENT.name: f"{HUMAN_AGREEMENT.title}: {HUMAN_AGREEMENT.meaning}"}


def _self_preference(
    step: Step, verdicts: StoredTable, labels: "HumanLabels"
) -> Iterator[MeasureRow]:
    """Yield what the judge gives each entrant that it is, by the labels; a jury judges itself."""
    config, measure = step.plan.config, SELF_PREFERENCE_BY_LABELS
    if config.settles_together(step.mode) or not labels.labels:
        return
    people = [
        Judgment.of(
            {"prompt_id": each.prompt_id, "sample": each.sample, "dimension": step.name}
            | {"entrant_a": each.first, "entrant_b": each.second, "weight": 1 / each.chance}
            | {"share": each.share, "outcome": Outcome.of_share(each.share)}
        )
        for each in labels.votes
    ]
    for name, each in self_preferences(step, [*rows_of(VerdictRow, verdicts)], people).items():
        limit = measure.threshold(config.checks)
        yield measure.light(each, limit, dimension=step.name, subject=name)


def _calibration(
    step: Step, verdicts: StoredTable, labels: "HumanLabels"
) -> tuple[list[MeasureRow], Metadata]:
    rows = calibrate_judge(
        labels.beside(verdicts),
        dimension=step.name,
        entrants=step.plan.config.entrant_ids,
        changed=labels.changed,
        about=people_keys(step.plan.config).labels.about,
        resampling=step.plan.config.ratings.resampling,
    )
    right = next((row.value for row in rows if row.measure == "right"), None)
    return rows, {
        "labels": len(labels.labels),
        "labels_of_other_texts": labels.changed,
        **known({"right_verdicts": right}),
    }


def _human_agreement(
    step: Step, verdicts: StoredTable, human: pd.DataFrame
) -> tuple[list[MeasureRow], Metadata]:
    config, ratings = step.plan.config, step.plan.config.ratings
    judged = [each for each in judgments_of(verdicts) if each.outcome is not Outcome.SAME_TEXT]
    counted = _battles_on(config, step.name, human)
    on_judged = on_prompts(counted, {judgment.prompt_id for judgment in judged})
    agreement = measure_human_agreement(
        battles_from_judgments(judged, judge_model=config.lead(step.mode).model),
        battles_of(on_judged),
        ratings.resampling,
    )
    sentence = tables.say("agreement", agreement, step.name, ratings.confidence)
    return (
        tables.agreement_rows(agreement, min_kappa=_min_kappa(step.plan), dimension=step.name),
        {"what_it_means": sentence, **_agreement_numbers(agreement, counted, on_judged)},
    )


def _agreement_numbers(
    agreement: HumanAgreement, counted: pa.Table, on_judged: pa.Table
) -> Metadata:
    without_prompt = counted.column("question_id").null_count
    return {
        "shared_comparisons": agreement.overall.n,
        **known(
            {"agreement": agreement.overall.share.value, "kappa": agreement.overall.kappa.value}
        ),
        "only_judge": agreement.n_only_judge,
        "only_human": agreement.n_only_human,
        "human_battles_on_other_prompts": counted.num_rows - on_judged.num_rows - without_prompt,
        "human_battles_without_prompt": without_prompt,
    }


def _frame_of(table: pa.Table) -> pd.DataFrame:
    schema = derive_schema(BattleRow)
    frame: pd.DataFrame = (
        table.select(schema.names).cast(schema).to_pandas(types_mapper=pd.ArrowDtype)
    )
    return frame


def _battles_on(config: TournamentConfig, dimension: str, human: pd.DataFrame) -> pa.Table:
    table = encode_battle_table([to_arrow(BattleRow, human)])
    return battles_that_count(table, dimension, dimensions=config.dimension_names)


@dataclass(frozen=True, slots=True)
class HumanLabels:
    """People's labels on the current pairs of a dimension.

    Attributes:
        labels: In the order of drawing.
        changed: How many labels are on texts that have changed since, or on pairs that are gone.
    """

    labels: "tuple[Label, ...]" = ()
    changed: int = 0

    @property
    def votes(self) -> list[Vote]:
        """The labels as ratings use them."""
        return [
            Vote(
                each.pair.prompt_id,
                each.pair.entrant_a,
                each.pair.entrant_b,
                each.share,
                each.rater,
                each.pair.chance,
                each.pair.sample,
            )
            for each in self.labels
        ]

    def beside(self, verdicts: AnyTable) -> list[CalibratedPair]:
        """Return all pairs of a dimension with people's labels on them.

        Args:
            verdicts: Table `judge_verdicts` of the dimension.
        """
        by_pair: dict[PairKey, list[Label]] = {}
        for label in self.labels:
            by_pair.setdefault(pair_key(label.pair), []).append(label)
        pairs = []
        for row in rows_of(VerdictRow, verdicts):
            labels = by_pair.get(pair_key(row), [])
            pairs.append(
                CalibratedPair(
                    row.prompt_id,
                    row.source,
                    row.entrant_a,
                    row.entrant_b,
                    row.outcome,
                    tuple(labels),
                    # A pair in the tail was already drawn once, to be judged.
                    (labels[0].pair.chance if labels else 1.0) / row.weight,
                )
            )
        return pairs


def _records(ledger: "Ledger") -> "LabelRecords":
    # Loading definitions must not load SQLAlchemy.
    from tournament_assets.extras.people.label_records import LabelRecords

    return LabelRecords.of(ledger)


def read_labels(
    ledger: "LabelRecords", plan: TournamentPlan, mode: Mode, dimension: str
) -> "tuple[Label, ...]":
    """Return the labels that count for a dimension, even if their texts have changed."""
    labels = tuple(ledger.labels(plan.tournament_id, mode, dimension))
    return labels or tuple(ledger.labels(plan.tournament_id, mode, None))


def labels_as_judged(labels: "Sequence[Label]", matches: AnyTable) -> HumanLabels:
    """Return the labels on current texts, and how many are on others.

    Args:
        matches: Table `match_list` of the dimension.
    """
    if not labels:
        return HumanLabels()
    labelled = {pair_key(label.pair): label for label in labels}
    current = {
        names
        for row in rows_of(MatchRow, matches)
        if (names := pair_key(row)) in labelled
        and labelled[names].pair.is_of(
            prompt=row.prompt_text, response_a=row.response_a, response_b=row.response_b
        )
    }
    still_judged = tuple(label for label in labels if pair_key(label.pair) in current)
    return HumanLabels(still_judged, len(labels) - len(still_judged))


def label_worths(
    config: TournamentConfig, labels: "Sequence[Label]", verdicts: AnyTable
) -> dict[PairKey, float]:
    """Return what labelling each judged pair is worth, by prompt and entrants.

    Args:
        labels: The labels so far.
        verdicts: Table `judge_verdicts` of the dimension.
    """
    judged = [row for row in judgments_of(verdicts) if row.outcome is not Outcome.SAME_TEXT]
    pairs = label_pairs(judged, HumanLabels(tuple(labels)).votes)
    if not pairs:
        return {}
    worth = label_worth(pairs, entrants=config.entrant_ids)
    names = ((*answer_key(pair), pair.first, pair.second) for pair in pairs)
    return dict(zip(names, worth.tolist(), strict=True))


def label_versions(plan: TournamentPlan) -> dict[tuple[str, Mode], str]:
    """Return versions that change only with the labels, by dimension and mode.

    A missing ledger counts as one without labels, and is not created.

    Raises:
        LedgerError: If the ledger cannot be opened.
    """
    is_elsewhere = bool(plan.project.environment.get("TOURNAMENT_LEDGER_URL"))
    if not (is_elsewhere or ledger_files(plan)):
        return dict.fromkeys(_scopes(plan), _version_of(()))
    with open_ledger(plan.project.ledger_url) as ledger:
        records = _records(ledger)
        return {
            (dimension, mode): _version_of(read_labels(records, plan, mode, dimension))
            for dimension, mode in _scopes(plan)
        }


def _scopes(plan: TournamentPlan) -> list[tuple[str, Mode]]:
    return list(product(plan.config.dimension_names, plan.config.mode_names))


def _version_of(labels: "Iterable[Label]") -> str:
    return fingerprint(
        [[each.pair.pair_id, each.pair.chance, each.rater, each.vote] for each in labels]
    )


def human_labels(plan: TournamentPlan) -> list[InputVersion]:
    """What people said about pairs, in the ledger.

    Adding a label makes the ratings that people would give, the judge's calibration and the report
    out of date, and nothing else.
    """
    versions: dict[tuple[str, Mode], str | None]
    try:
        versions, problem = {**label_versions(plan)}, ""
    except LedgerError as error:
        versions, problem = dict.fromkeys(_scopes(plan)), str(error)
    return [InputVersion("|".join(scope), version, problem) for scope, version in versions.items()]


_row = partial(AssetRow, stage="ratings")
_rating = partial(_row, job="judging", axes=MODE_BY_DIMENSION, after=("human_labels",))

ROWS = (
    _row(human_labels, job="inputs", axes=MODE_BY_DIMENSION, stored_as="file"),
    _row(
        human_battles,
        job="prompts",
        axes=MODE,
        where=Where(has_human_battles, "where the config names a file"),
    ),
    _rating(people_ratings, settings=people_rating_settings),
    _rating(people_measures, settings=people_measure_settings, checks=people_checks),
)
