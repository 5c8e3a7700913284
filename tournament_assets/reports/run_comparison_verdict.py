"""The first line of a review: how many judgments flipped, after what, and whose place changed."""

from collections.abc import Sequence

from tournament_assets.audits.input_changes import InputComparison
from tournament_assets.audits.rating_moves import RatingMove
from tournament_assets.reports.formatting import join_names
from tournament_assets.reports.run_comparison import RunComparison
from tournament_assets.reports.run_comparison_words import (
    INPUT_WORDS,
    grouped_phrases,
    partial_sentences,
    size_cautions,
)

_PARTIAL = "is_partial"
_RUBRICS, _RESPONSES, _REQUESTS = "inputs.rubrics.", "inputs.responses.", "inputs.judge_requests."


def verdict_sentences(comparison: RunComparison) -> str:
    """Say what came of what changed, and whose place; no run that is PARTIAL passes for whole.

    Args:
        comparison: Two runs side by side.
    """
    flips = comparison.flips.total.flips
    asked = "that were asked otherwise " if comparison.flips.asked_otherwise else ""
    if not flips.n and asked:
        said = "No pair that was asked otherwise was settled in both runs"
    elif not flips.n:
        said = "No pair was settled in both runs, so no judgment can be said to have flipped"
    else:
        said = f"{flips.count} of {flips.n} judgments {asked}flipped"
    causes = _causes(comparison.inputs)
    if causes:
        said += f" after {'; '.join(causes)}"
    else:
        said += ", and nothing differs in the inputs"
    partial = partial_sentences(comparison.then.manifest, comparison.now.manifest)
    cautions = size_cautions(comparison.sizes)
    return " ".join([f"{said}.", *cautions, _place_sentence(comparison.moves), *partial])


def _place_sentence(moves: Sequence[RatingMove]) -> str:
    places = [move for move in moves if move.is_of_place]
    if not places:
        return "Nobody's place changes."
    changed = "; ".join(
        f"{move.entrant_id} from {move.then.rank} to {move.now.rank} on {move.dimension}"
        for move in places
        if move.then is not None and move.now is not None
    )
    return f"Places change: {changed}."


def _causes(inputs: InputComparison) -> list[str]:
    causes = [_rubric_cause(name, inputs) for name in inputs.names(_RUBRICS)]
    answering = inputs.names(_RESPONSES)
    if answering:
        causes.append(f"the responses of {join_names(answering)} changed")
    grouped, changes = grouped_phrases(inputs)
    others = grouped + [
        INPUT_WORDS.get(change.name, change.name) for change in changes if change.name != _PARTIAL
    ]
    if others:
        causes.append(f"{join_names(others)} changed")
    asked = inputs.names(_REQUESTS)
    if asked and not causes:
        causes.append(f"the judge was asked otherwise on {join_names(asked)}")
    return causes


def _rubric_cause(dimension: str, inputs: InputComparison) -> str:
    version = next(
        (each for each in inputs.changes if each.name == f"{_RUBRICS}{dimension}.version"), None
    )
    if version is None:
        return f"{dimension}'s rubric was edited (its version line is the same)"
    if version.then is None:
        return f"{dimension}'s rubric was added"
    if version.now is None:
        return f"{dimension}'s rubric was taken out"
    return f"{dimension}'s rubric went from version {version.then} to version {version.now}"
