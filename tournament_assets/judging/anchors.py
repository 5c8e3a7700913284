"""Anchor pairs: a fixed sample that is judged again on every occasion, to see the judge drift."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tournament_assets.judging.controls import require_sample
from tournament_assets.judging.pairing import PairToJudge
from tournament_assets.judging.requests import JudgeRequest
from tournament_assets.tournament.fingerprints import fingerprint

_DRIFT = "drift"


def draw_anchors(
    pairs: Sequence[PairToJudge],
    *,
    can_serve: Callable[[PairToJudge], bool],
    sample: int,
    seed: int,
) -> list[PairToJudge]:
    """Draw the pairs that are judged again on every occasion.

    Prompts, and the pairs on each of them, are ranked by a hash of their names, so that nothing
    depends on how many there are: among twice as many prompts or entrants about half of the
    anchors stay, and an edited text changes no rank. Every prompt gives one pair before any
    gives a second, because pairs on one prompt tend to flip together. Pairs of identical
    responses are left out, and so is a pair whose two texts were drawn under other names.

    Args:
        pairs: The tournament's pairs on one dimension, in any order.
        can_serve: Tells whether a pair can be an anchor; asked only as far as needed.
        sample: The most pairs to draw.
        seed: Seeds the ranking; a smaller sample is the beginning of a larger one.

    Raises:
        InputError: If `sample` is negative.
    """
    require_sample(sample)
    by_prompt: dict[str, list[PairToJudge]] = {}
    for pair in pairs:
        if pair.response_a != pair.response_b:
            by_prompt.setdefault(pair.prompt_id, []).append(pair)
    ranked = [
        (place, fingerprint([seed, prompt_id]), pair)
        for prompt_id, members in by_prompt.items()
        for place, pair in enumerate(sorted(members, key=lambda each: _rank(each, seed)))
    ]
    drawn: dict[tuple[str, frozenset[str]], PairToJudge] = {}
    for *_, pair in sorted(ranked, key=lambda entry: entry[:2]):
        if len(drawn) == sample:
            break
        texts = (pair.prompt_id, frozenset((pair.response_a, pair.response_b)))
        if texts not in drawn and can_serve(pair):
            drawn[texts] = pair
    return list(drawn.values())


def _rank(pair: PairToJudge, seed: int) -> str:
    return fingerprint([seed, pair.prompt_id, *sorted((pair.entrant_a, pair.entrant_b))])


def ask_on_occasion(request: JudgeRequest, occasion: str) -> JudgeRequest:
    """Return the same question under a key of its own for each occasion.

    What the judge sees is the same to the byte. The same occasion gives the same key, so that what
    was answered on it is not paid for again.
    """
    return replace(request, request_key=fingerprint([request.request_key, _DRIFT, occasion]))


def purpose_of_occasion(occasion: str) -> str:
    """Return the purpose under which an occasion's batches are written down."""
    return f"{_DRIFT} {occasion}"


def occasion_of_purpose(purpose: str) -> str | None:
    """Undo `purpose_of_occasion`; None for what is asked for anything else."""
    beginning = f"{_DRIFT} "
    return purpose.removeprefix(beginning) if purpose.startswith(beginning) else None
