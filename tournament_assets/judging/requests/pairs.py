"""Which pairs of responses are judged on which dimension, and how each is shown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import combinations

from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.prompts import AnswerKey, Prompt, answer_key, sample_name


class Presentation(StrEnum):
    """The order in which a pair is shown to the judge."""

    AB = "ab"
    """Response A is entrant_a's."""
    BA = "ba"
    """Response A is entrant_b's."""


PRESENTATIONS = (Presentation.AB, Presentation.BA)
"""In how many orders each pair is shown."""


@dataclass(frozen=True, slots=True)
class PairToJudge:
    """Two entrants' responses to one prompt, to be judged on one dimension.

    Attributes:
        prompt_id: The prompt both answered.
        source: The prompt's stratum.
        prompt_text: What they were asked.
        entrant_a: The entrant shown first in the first presentation.
        response_a: What `entrant_a` answered.
        response_b: What `entrant_b` answered.
        gold_answer: The accepted answer, where the prompt has one.
        expected_behavior: How to behave, where the prompt says so.
        sample: Which of their answers to the prompt these are, from 1.
    """

    prompt_id: str
    source: str
    prompt_text: str
    entrant_a: str
    entrant_b: str
    response_a: str
    response_b: str
    gold_answer: str | None = None
    expected_behavior: str | None = None
    sample: int = 1

    @property
    def name(self) -> str:
        """The name of the prompt and the sample in draws and fingerprints."""
        return sample_name(self.prompt_id, self.sample)


def draw_share(pairs: Iterable[PairToJudge], judge: Judge) -> list[PairToJudge]:
    """Return the pairs that a judge is to judge, drawn by hashes of names: its share, or its turn.

    In turn a pair is given to the judge with the highest hash, so that nobody else's pairs change
    when a judge joins or leaves (Thaler and Ravishankar, https://doi.org/10.1109/90.663936).
    """
    return [
        pair
        for pair in pairs
        if (
            judge.model == max(judge.turn, key=partial(_turn, pair))
            if judge.turn
            else judge.share >= 1 or _share(pair, judge.model) < judge.share
        )
    ]


def _share(pair: PairToJudge, judge_model: str) -> float:
    """Return a number from 0 to 1 that the same names always give."""
    names = ["share", judge_model, pair.name, pair.entrant_a, pair.entrant_b]
    return int(fingerprint(names)[:13], 16) / 16**13


def _turn(pair: PairToJudge, judge_model: str) -> str:
    """Return a hash of a judge and a pair, whichever entrant comes first."""
    return fingerprint(["turn", judge_model, pair.name, *sorted((pair.entrant_a, pair.entrant_b))])


@dataclass(frozen=True, slots=True)
class MatchList:
    """The pairs to judge, and the prompts that could not be paired.

    Attributes:
        pairs: In bank order; within a prompt in the order of the entrants.
        incomplete_prompts: For each prompt left out, the entrants that have no response to it.
    """

    pairs: tuple[PairToJudge, ...]
    incomplete_prompts: Mapping[AnswerKey, tuple[str, ...]]


def build_match_list(
    prompts: Sequence[Prompt],
    responses: Mapping[tuple[str, AnswerKey], str],
    *,
    entrants: Sequence[str],
) -> MatchList:
    """Pair every two entrants on every prompt that all of them answered.

    A prompt that one entrant did not answer is left out for everyone: otherwise the entrants
    would be compared on different questions.

    Args:
        prompts: The selected prompts, in bank order.
        responses: Response text by (entrant id, what it answers).
        entrants: Entrant ids; the earlier one of a pair is its `entrant_a`.
    """
    pairs: list[PairToJudge] = []
    incomplete: dict[AnswerKey, tuple[str, ...]] = {}
    for prompt in prompts:
        missing = tuple(
            entrant for entrant in entrants if (entrant, answer_key(prompt)) not in responses
        )
        if missing:
            incomplete[answer_key(prompt)] = missing
            continue
        pairs.extend(
            PairToJudge(
                prompt_id=prompt.prompt_id,
                source=prompt.source,
                prompt_text=prompt.text,
                entrant_a=entrant_a,
                entrant_b=entrant_b,
                response_a=responses[entrant_a, answer_key(prompt)],
                response_b=responses[entrant_b, answer_key(prompt)],
                gold_answer=prompt.gold_answer,
                expected_behavior=prompt.expected_behavior,
                sample=prompt.sample,
            )
            for entrant_a, entrant_b in combinations(entrants, 2)
        )
    return MatchList(pairs=tuple(pairs), incomplete_prompts=incomplete)


def filter_pairs_for_dimension(
    pairs: Iterable[PairToJudge], *, needs_gold_answer: bool
) -> list[PairToJudge]:
    """Drop the pairs without a gold answer, where a dimension needs one."""
    return [pair for pair in pairs if not needs_gold_answer or pair.gold_answer is not None]


def split_identical(
    pairs: Iterable[PairToJudge],
) -> tuple[list[PairToJudge], list[PairToJudge]]:
    """Separate the pairs to be asked from those whose two responses are the same text.

    Returns:
        The pairs to ask, and the identical ones, each in the order they came.
    """
    to_ask: list[PairToJudge] = []
    identical: list[PairToJudge] = []
    for pair in pairs:
        (identical if pair.response_a == pair.response_b else to_ask).append(pair)
    return to_ask, identical
