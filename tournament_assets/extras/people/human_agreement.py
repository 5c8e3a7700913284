"""How far a judge agrees with people who compared the same models on the same prompts."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tournament_assets.audits.agreement import (
    MANY_RESAMPLES,
    TIE,
    Agreement,
    Label,
    LabelPair,
    measure_agreement,
    same_vote,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.tournament.battles import Battle

_WINNERS = {"a", "b"}
"""The model whose name sorts first, and the other."""

_Comparison = tuple[str, int, str, str]


@dataclass(frozen=True, slots=True)
class HumanAgreement:
    """How far a judge agrees with people.

    Attributes:
        overall: Agreement on who won or that it was a tie.
        decisive: Agreement on who won, where neither says tie.
        n_only_judge: Comparisons (a prompt and two models) that only the judge made.
        n_only_human: Comparisons that only people made.
    """

    overall: Agreement
    decisive: Agreement
    n_only_judge: int
    n_only_human: int


def measure_human_agreement(
    judge: Iterable[Battle],
    human: Iterable[Battle],
    resampling: Resampling = MANY_RESAMPLES,
) -> HumanAgreement:
    """Compare a judge's battles with people's, where both compared two models on one prompt.

    Several verdicts of one side on the same comparison count as one, the most frequent; verdicts
    that are equally frequent share the vote, as do the two winners where a judge's verdict flips
    with the order. It does not matter which model is model_a.

    Args:
        judge: Battles that models decided, all on one dimension.
        human: Battles that people decided.
        resampling: Of the prompts, for kappa's interval; its confidence is used for all intervals.
    """
    judge_votes = _collect(judge, source="llm-judge")
    human_votes = _collect(human, source="human")
    shared = sorted(judge_votes.keys() & human_votes.keys())
    labels = [
        LabelPair(key[0], _most_frequent(human_votes[key]), _most_frequent(judge_votes[key]))
        for key in shared
    ]
    decisive = [pair for pair in labels if {pair.first, pair.second} <= _WINNERS]
    return HumanAgreement(
        overall=measure_agreement(labels, resampling),
        decisive=measure_agreement(decisive, resampling),
        n_only_judge=len(judge_votes) - len(shared),
        n_only_human=len(human_votes) - len(shared),
    )


def _collect(battles: Iterable[Battle], *, source: str) -> dict[_Comparison, dict[str, float]]:
    votes: dict[_Comparison, dict[str, float]] = defaultdict(lambda: {"a": 0.0, TIE: 0.0, "b": 0.0})
    dimensions: set[str] = set()
    for battle in battles:
        if battle.source != source:
            raise InputError(
                f"the battle of {battle.model_a!r} and {battle.model_b!r} on "
                f"{battle.question_id!r} is of source {battle.source!r}; expected {source!r}"
            )
        dimensions.add(str(battle.dimension))
        if battle.question_id is None:
            continue
        first, second = sorted((battle.model_a, battle.model_b))
        label = _label(battle, first)
        for word in (TIE, *_WINNERS):
            votes[battle.question_id, battle.sample, first, second][word] += same_vote(word, label)
    if source == "llm-judge" and len(dimensions) > 1:
        raise InputError(
            f"the judge's battles are of the dimensions {', '.join(sorted(dimensions))}; expected "
            "one; compare each of them with the human battles"
        )
    return votes


def _label(battle: Battle, first: str) -> Label:
    if battle.inconsistent:
        return ("a", "b")
    if battle.is_tie:
        return TIE
    winner = battle.model_a if battle.winner == "model_a" else battle.model_b
    return "a" if winner == first else "b"


def _most_frequent(votes: Mapping[str, float]) -> Label:
    """Return the most frequent verdict, or those that are equally frequent."""
    most = max(votes.values())
    words = tuple(word for word, count in votes.items() if count == most)
    return words if len(words) > 1 else words[0]
