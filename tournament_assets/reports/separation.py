"""Who leads, and whom the resamples cannot tell apart from the leader, in plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tournament_assets.reports.formatting import format_confidence, format_gap, join_names


@dataclass(frozen=True, slots=True)
class Separation:
    """Which entrants the judgments tell apart from the leader.

    An entrant is separated when the interval of its difference to the leader, which holds together
    with those of all other pairs, lies wholly on one side of 0; see `ratings.separated_entrants`.
    Everything else means only that these judgments do not decide between the two.

    Attributes:
        leader: The entrant in the first place, or None if fewer than two have a place.
        runner_up: The entrant in the second place.
        lead: Elo points between their means; None where one of them has no rating.
        no_lead: Why there is no number of points; None where there is one.
        separated: Entrants shown to be below the leader, best first.
        not_separated: The other rated entrants, best first.
        no_upper_bound: Those among them whose interval is open above.
        leader_is_unbounded: Whether the leader's own interval is open below.
        unrated: Entrants without a place.
    """

    leader: str | None
    runner_up: str | None
    lead: float | None
    no_lead: str | None
    separated: tuple[str, ...]
    not_separated: tuple[str, ...]
    no_upper_bound: tuple[str, ...]
    leader_is_unbounded: bool
    unrated: tuple[str, ...]


def is_rated(row: Mapping[str, Any]) -> bool:
    """Whether a row of Elo ratings has a number; tables of old have one for who never played."""
    return bool(row["n_entrant_matches"]) and row["mean"] is not None


def separation(rows: Sequence[Mapping[str, Any]]) -> Separation:
    """Tell which entrants are separated from the leader.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.
    """
    placed = [row for row in rows if row["n_entrant_matches"] and row["rank"] is not None]
    rated = sorted(placed, key=lambda row: row["rank"])
    unrated = tuple(row["entrant_id"] for row in rows if row not in placed)
    if len(rated) < 2:
        return Separation(None, None, 0.0, None, (), (), (), False, unrated)
    leader, *others = rated
    no_lead = [f"{row['entrant_id']} {row['note']}" for row in rated[:2] if not is_rated(row)]
    below = [row["entrant_id"] in leader["shown_above"] for row in others]
    return Separation(
        leader=leader["entrant_id"],
        runner_up=others[0]["entrant_id"],
        lead=None if no_lead else leader["mean"] - others[0]["mean"],
        no_lead="; ".join(no_lead) or None,
        separated=tuple(
            row["entrant_id"] for row, is_below in zip(others, below, strict=True) if is_below
        ),
        not_separated=tuple(
            row["entrant_id"] for row, is_below in zip(others, below, strict=True) if not is_below
        ),
        no_upper_bound=tuple(row["entrant_id"] for row in others if row["sampling_high"] is None),
        leader_is_unbounded=leader["sampling_low"] is None,
        unrated=unrated,
    )


def verdict_sentence(
    rows: Sequence[Mapping[str, Any]], *, dimension: str, confidence: float = 0.95
) -> str:
    """Say in plain words who leads on a dimension and what the intervals do not decide.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.
        dimension: The quality that was judged.
        confidence: Coverage of the sampling intervals.
    """
    found = separation(rows)
    if found.leader is None:
        return _undecided_sentence(rows, dimension=dimension)
    basis = f"({format_confidence(confidence)} intervals of the difference, prompts resampled)"
    if found.lead is None:
        leads = f"comes first, by no number of points ({found.no_lead})"
    elif found.lead:
        leads = f"has the highest mean, {format_gap(found.lead)} above {found.runner_up}"
    else:
        leads = f"has the highest mean, which {found.runner_up} shares"
    if not found.not_separated:
        leads = leads.replace("has the highest mean, ", "leads: its mean is ")
        sentences = [
            f"On {dimension}, {found.leader} {leads}, and it is separated from "
            f"{join_names(found.separated)} {basis}."
        ]
    else:
        nobody = "" if found.separated else "nobody is shown to lead: "
        opening = f"On {dimension}, {nobody}{found.leader} {leads}, but"
        sentences = [f"{opening} is not separated from {join_names(found.not_separated)} {basis}."]
        if found.leader_is_unbounded:
            sentences.append(f"The judgments set no lower bound for {found.leader}.")
        if found.no_upper_bound:
            sentences.append(
                f"The judgments set no upper bound for {join_names(found.no_upper_bound)}."
            )
        if found.separated:
            sentences.append(f"It is separated from {join_names(found.separated)}.")
        sentences.append("Judging more prompts would narrow the intervals.")
    if found.unrated:
        notes = {row["entrant_id"]: row["note"] for row in rows if row["n_entrant_matches"]}
        idle = [name for name in found.unrated if name not in notes]
        reasons = [f"{name} ({notes[name]})" for name in found.unrated if name in notes]
        if idle:
            verb = "has" if len(idle) == 1 else "have"
            reasons.append(f"{join_names(idle)} {verb} no decisive match")
        sentences.append(f"Not rated: {'; '.join(reasons)}.")
    return " ".join(sentences)


def _undecided_sentence(rows: Sequence[Mapping[str, Any]], *, dimension: str) -> str:
    if all(row["win_rate"] is None for row in rows):
        return (
            f"On {dimension}, nothing can be said: no pair has been judged. "
            "See the audit for what is missing, then run the tournament again."
        )
    return (
        f"On {dimension}, nothing can be said: there is no decisive match, because every judged "
        "pair was a tie or got two verdicts that disagree. Judge more prompts, or write a rubric "
        "that tells the responses apart."
    )
