"""How far a judge agrees with people who compared the same models on the same prompts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tournament_assets.audits.agreement import (
    MANY_RESAMPLES,
    Agreement,
    LabelPair,
    measure_agreement,
)
from tournament_assets.tournament.battles import Battle
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.estimates import Resampling

TIE = "tie"

_Comparison = tuple[str, int, str, str]


@dataclass(frozen=True, slots=True)
class HumanAgreement:
    """How far a judge agrees with people.

    Attributes:
        overall: Agreement on who won or that it was a tie; two presentations that disagreed are a
            tie.
        decisive: Agreement on who won, where neither says tie.
        verdicts: Counts by people's and the judge's verdict: "first" for the model whose name
            sorts first, "second" for the other, or "tie".
        n_only_judge: Comparisons (a prompt and two models) that only the judge made.
        n_only_human: Comparisons that only people made.
        n_without_majority: Comparisons by both on which one side's most frequent verdicts are
            equally frequent; they are in no rate.
        n_without_prompt: Battles that name no prompt and so cannot be compared.
    """

    overall: Agreement
    decisive: Agreement
    verdicts: Mapping[tuple[str, str], int]
    n_only_judge: int
    n_only_human: int
    n_without_majority: int
    n_without_prompt: int


def measure_human_agreement(
    judge: Iterable[Battle],
    human: Iterable[Battle],
    resampling: Resampling = MANY_RESAMPLES,
) -> HumanAgreement:
    """Compare a judge's battles with people's, where both compared two models on one prompt.

    Several verdicts of one side on the same comparison count as one, the most frequent. It does not
    matter which model is model_a.

    Args:
        judge: Battles that models decided, all on one dimension.
        human: Battles that people decided.
        resampling: Of the prompts, for kappa's interval; its confidence is used for all intervals.

    Raises:
        InputError: If a battle is passed on the wrong side, the judge's battles are on several
            dimensions, or an option is invalid.
    """
    judge_votes, judge_without = _collect(judge, source="llm-judge")
    human_votes, human_without = _collect(human, source="human")
    shared = sorted(judge_votes.keys() & human_votes.keys())
    labels = [
        LabelPair(key[0], _majority(human_votes[key]), _majority(judge_votes[key]))
        for key in shared
    ]
    decisive = [pair for pair in labels if TIE not in (pair.first, pair.second)]
    verdicts = Counter(
        (pair.first, pair.second)
        for pair in labels
        if pair.first is not None and pair.second is not None
    )
    return HumanAgreement(
        overall=measure_agreement(labels, resampling),
        decisive=measure_agreement(decisive, resampling),
        verdicts=dict(sorted(verdicts.items())),
        n_only_judge=len(judge_votes) - len(shared),
        n_only_human=len(human_votes) - len(shared),
        n_without_majority=sum(None in (pair.first, pair.second) for pair in labels),
        n_without_prompt=judge_without + human_without,
    )


def _collect(
    battles: Iterable[Battle], *, source: str
) -> tuple[dict[_Comparison, Counter[str]], int]:
    votes: dict[_Comparison, Counter[str]] = defaultdict(Counter)
    n_without_prompt = 0
    dimensions: set[str] = set()
    for battle in battles:
        if battle.source != source:
            raise InputError(
                f"the battle of {battle.model_a!r} and {battle.model_b!r} on "
                f"{battle.question_id!r} is of source {battle.source!r}; expected {source!r}"
            )
        dimensions.add(str(battle.dimension))
        if battle.question_id is None:
            n_without_prompt += 1
            continue
        first, second = sorted((battle.model_a, battle.model_b))
        votes[battle.question_id, battle.sample, first, second][_label(battle, first)] += 1
    if source == "llm-judge" and len(dimensions) > 1:
        raise InputError(
            f"the judge's battles are of the dimensions {', '.join(sorted(dimensions))}; expected "
            "one; compare each of them with the human battles"
        )
    return votes, n_without_prompt


def _label(battle: Battle, first: str) -> str:
    if battle.is_tie:
        return TIE
    winner = battle.model_a if battle.winner == "model_a" else battle.model_b
    return "first" if winner == first else "second"


def _majority(votes: Counter[str]) -> str | None:
    """Return the most frequent verdict, or None if two are equally frequent."""
    ranked = votes.most_common(2)
    if len(ranked) == 2 and ranked[0][1] == ranked[1][1]:
        return None
    return ranked[0][0]
