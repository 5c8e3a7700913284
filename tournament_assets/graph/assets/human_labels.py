"""People's labels as ratings and the calibration of the judge take them, out of the ledger.

Labels are asked for one dimension, or for which response is better in general; the latter stand for
a dimension that has none of its own. A label of texts that are others by now counts for nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tournament_assets.judging.requests.verdict_parsing import stored_outcome
from tournament_assets.project.project_files import default_ledger_url
from tournament_assets.storage.tables import AnyTable, rows_of
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.workflows.plan import TournamentPlan

if TYPE_CHECKING:
    from tournament_assets.audits.judge_calibration import CalibratedPair
    from tournament_assets.ledger import Ledger
    from tournament_assets.ledger.labels import Label
    from tournament_assets.ratings.prediction_powered import Vote

_Names = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class HumanLabels:
    """What people said of the pairs of a dimension as they are.

    Attributes:
        labels: In the order of drawing.
        changed: How many labels are of texts that are others by now, or of pairs that are gone.
    """

    labels: "tuple[Label, ...]" = ()
    changed: int = 0

    @property
    def votes(self) -> "list[Vote]":
        """The labels as ratings take them."""
        # Imported here: looking whether anything is new needs no statistics.
        from tournament_assets.ratings.prediction_powered import Vote

        return [
            Vote(
                each.pair.prompt_id,
                each.pair.entrant_a,
                each.pair.entrant_b,
                each.share,
                each.rater,
                each.pair.chance,
            )
            for each in self.labels
        ]

    def beside(self, verdicts: AnyTable) -> "list[CalibratedPair]":
        """Return all pairs of a dimension with what people said of them.

        Args:
            verdicts: Table `judge_verdicts` of the dimension.
        """
        from tournament_assets.audits.judge_calibration import CalibratedPair, Labelling

        said: dict[_Names, list[Label]] = {}
        for label in self.labels:
            said.setdefault(_names(label), []).append(label)
        pairs = []
        for row in rows_of(_Settled, verdicts):
            own = said.get((row.prompt_id, row.entrant_a, row.entrant_b), [])
            pairs.append(
                CalibratedPair(
                    row.prompt_id,
                    row.source,
                    row.entrant_a,
                    row.entrant_b,
                    stored_outcome(row.outcome, row.reason_ab),
                    tuple(
                        Labelling(
                            each.rater,
                            each.vote if each.vote in ("a", "b") else "tie",
                            is_both_bad=each.vote == "both_bad",
                        )
                        for each in own
                    ),
                    own[0].pair.chance if own else 1.0,
                )
            )
        return pairs


@dataclass(frozen=True, slots=True)
class _Settled:
    prompt_id: str
    source: str
    entrant_a: str
    entrant_b: str
    outcome: str
    reason_ab: str | None


@dataclass(frozen=True, slots=True)
class _Texts:
    prompt_id: str
    entrant_a: str
    entrant_b: str
    prompt_text: str
    response_a: str
    response_b: str


def read_labels(
    ledger: "Ledger", plan: TournamentPlan, mode: Mode, dimension: str
) -> "tuple[Label, ...]":
    """Return the labels that count for a dimension, whatever their texts."""
    own = tuple(ledger.labels(plan.tournament_id, mode, dimension))
    return own or tuple(ledger.labels(plan.tournament_id, mode, None))


def labels_as_judged(labels: "Sequence[Label]", matches: AnyTable) -> HumanLabels:
    """Return the labels of texts as they are, and how many are of others.

    Args:
        labels: What people said.
        matches: Table `match_list` of the dimension.
    """
    if not labels:
        return HumanLabels()
    labelled: Mapping[_Names, Label] = {_names(label): label for label in labels}
    current = {
        names
        for row in rows_of(_Texts, matches)
        if (names := (row.prompt_id, row.entrant_a, row.entrant_b)) in labelled
        and labelled[names].pair.is_of(
            prompt=row.prompt_text, response_a=row.response_a, response_b=row.response_b
        )
    }
    kept = tuple(label for label in labels if _names(label) in current)
    return HumanLabels(kept, len(labels) - len(kept))


def _names(label: "Label") -> _Names:
    return label.pair.prompt_id, label.pair.entrant_a, label.pair.entrant_b


def label_versions(plan: TournamentPlan) -> dict[tuple[str, Mode], str]:
    """Return what changes with the labels of each dimension and mode, and with nothing else.

    A project without a ledger has none, and is given none.

    Raises:
        LedgerError: If the ledger cannot be opened.
    """
    from tournament_assets.ledger import Ledger

    scopes = [
        (dimension, mode)
        for dimension in plan.config.dimension_names
        for mode in plan.config.mode_names
    ]
    if not _has_ledger(plan):
        return dict.fromkeys(scopes, _version_of(()))
    with closing(Ledger(ledger_url(plan))) as ledger:
        return {
            (dimension, mode): _version_of(read_labels(ledger, plan, mode, dimension))
            for dimension, mode in scopes
        }


def _version_of(labels: "Iterable[Label]") -> str:
    return fingerprint(
        [[each.pair.pair_id, each.pair.chance, each.rater, each.vote] for each in labels]
    )


def ledger_url(plan: TournamentPlan) -> str:
    """Return the address of the ledger of a tournament's project."""
    project = plan.project
    return project.environment.get("TOURNAMENT_LEDGER_URL") or default_ledger_url(project.folder)


def ledger_files(plan: TournamentPlan) -> list[Path]:
    """Return the files that change with the ledger; none where it is no file of the project."""
    if plan.project.environment.get("TOURNAMENT_LEDGER_URL"):
        return []
    path = Path(default_ledger_url(plan.project.folder).removeprefix("sqlite:///"))
    return [each for each in (path, path.with_name(f"{path.name}-wal")) if each.exists()]


def _has_ledger(plan: TournamentPlan) -> bool:
    is_elsewhere = bool(plan.project.environment.get("TOURNAMENT_LEDGER_URL"))
    return is_elsewhere or bool(ledger_files(plan))
