"""The prompt bank: its rows, what makes it valid, how a pilot is drawn; and what was answered.

A response carries its decoder's diagnostics, which are summarised here for each entrant.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Annotated, Any, Protocol

import numpy as np

from tournament_assets.foundation.errors import Problems
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.formatting import expect_one_of, hint_at
from tournament_assets.tournament.completions import Completion, End, Reading, read_completion

EXPECTED_BEHAVIORS = ("answer", "hedge", "abstain")
CURATED_SOURCE = "curated"
"""The source of trustworthiness prompts, each of which states an expected behaviour."""

_TEXT_FIELDS = ("prompt_id", "text", "source", "subject", "gold_answer", "category")
BANK_FIELDS = (*_TEXT_FIELDS, "expected_behavior", "tags")
"""The keys of a bank's row that have a meaning; others are kept as they are."""

AnswerKey = tuple[str, int]
"""A prompt's id and a sample's number, by which each entrant has one answer."""


class OfSample(Protocol):
    """Whatever belongs to one sample of a prompt."""

    @property
    def prompt_id(self) -> str:
        """The prompt."""
        ...

    @property
    def sample(self) -> int:
        """Which of the answers to it, from 1."""
        ...


def answer_key(answer: OfSample) -> AnswerKey:
    """Return the key by which answers are found."""
    return answer.prompt_id, answer.sample


def sample_name(prompt_id: str, sample: int) -> str:
    """Return a sample's name in draws, seeds and fingerprints; no other sample has it."""
    # The first has the prompt's id, unless that reads as another prompt's sample.
    is_id = sample == 1 and re.search(r"~sample\d+$", prompt_id) is None
    return prompt_id if is_id else f"{prompt_id}~sample{sample}"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, as the bank and the tables `prompt_bank` and `selected_prompts` hold it.

    Its id also seeds the sampling of responses.
    """

    prompt_id: Annotated[str, "unique in the bank"]
    sample: Annotated[int, "which of its answers is asked for, from 1"] = field(
        default=1, kw_only=True
    )
    text: Annotated[str, "what the entrants are asked"]
    source: Annotated[str, "the stratum it belongs to"]
    subject: Annotated[str | None, "field of knowledge"] = None
    gold_answer: Annotated[str | None, "the accepted answer"] = None
    expected_behavior: Annotated[str | None, "answer, hedge or abstain"] = None
    category: Annotated[str | None, "a finer label within the source"] = None
    tags: Annotated[tuple[str, ...], "free labels"] = ()
    extra: Annotated[str, "further keys of the row, as JSON"] = "{}"

    @property
    def name(self) -> str:
        """Its name in draws, seeds and fingerprints."""
        return sample_name(self.prompt_id, self.sample)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what an entrant's response depends on: the identity and the text."""
        return fingerprint({"prompt_id": self.name, "text": self.text})


def parse_prompt_bank(
    rows: Sequence[tuple[str, Mapping[str, Any]]], *, gold_dimensions: Sequence[str] = ()
) -> list[Prompt]:
    """Read and validate the rows of a prompt bank.

    Args:
        rows: The place of each row (`file:line`) and the row itself, in bank order.
        gold_dimensions: The dimensions that compare with a gold answer. Where there are any, a
            prompt has a gold answer, or an expected behaviour and is left out of them.
    """
    problems = Problems()
    prompts: list[Prompt] = []
    first_seen: dict[str, str] = {}
    for where, row in rows:
        prompt = _parse_row(where, row, problems, gold_dimensions)
        if prompt is None:
            continue
        if prompt.prompt_id in first_seen:
            problems.add(
                f"{where}: prompt_id {prompt.prompt_id!r} is already used at "
                f"{first_seen[prompt.prompt_id]}; expected every prompt_id once; rename one of them"
            )
            continue
        first_seen[prompt.prompt_id] = where
        prompts.append(prompt)
    if not rows:
        problems.add("the prompt bank is empty; expected at least one prompt; add a line")
    problems.raise_if_any()
    return prompts


def _parse_row(
    where: str, row: Mapping[str, Any], problems: Problems, gold_dimensions: Sequence[str]
) -> Prompt | None:
    others = row.keys() - {*BANK_FIELDS}
    wrong = [
        f"{where}: the row has no {name!r}; expected a non-empty text; add it"
        + hint_at(name, sorted(others)).replace("did you mean", "or is it")
        for name in ("prompt_id", "text", "source")
        if row.get(name) is None
    ]
    for name in _TEXT_FIELDS:
        value = row.get(name)
        if value is not None and not (isinstance(value, str) and value.strip()):
            wrong.append(f"{where}: {name} is {value!r}; expected a non-empty text")
    behavior = row.get("expected_behavior")
    if behavior is not None and behavior not in EXPECTED_BEHAVIORS:
        wrong.append(
            f"{where}: expected_behavior is {behavior!r}; "
            f"{expect_one_of(behavior, EXPECTED_BEHAVIORS)}"
        )
    tags = row.get("tags")
    tags = () if tags is None else tags
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        wrong.append(f"{where}: tags is {tags!r}; expected a list of texts")
    source = row.get("source")
    if source == CURATED_SOURCE and behavior is None:
        wrong.append(
            f"{where}: a curated prompt has no expected_behavior; "
            f"expected one of {', '.join(EXPECTED_BEHAVIORS)}"
        )
    elif gold_dimensions and source and behavior is None and row.get("gold_answer") is None:
        wrong.append(
            f"{where}: a prompt with source {source!r} has no gold_answer, which "
            f"{', '.join(gold_dimensions)} is judged against; add one, or an expected_behavior "
            "with which it is left out there"
        )
    if wrong:
        problems.extend(wrong)
        return None
    return Prompt(
        prompt_id=row["prompt_id"],
        text=row["text"],
        source=row["source"],
        subject=row.get("subject"),
        gold_answer=row.get("gold_answer"),
        expected_behavior=behavior,
        category=row.get("category"),
        tags=tuple(tags),
        extra=json.dumps(
            {key: row[key] for key in others},
            sort_keys=True,
            ensure_ascii=False,
        ),
    )


def draw_samples(prompts: Iterable[Prompt], n_samples: int) -> list[Prompt]:
    """Return every prompt once for each sample."""
    return [
        replace(prompt, sample=number) for prompt in prompts for number in range(1, n_samples + 1)
    ]


def first_samples(prompts: Iterable[Prompt]) -> list[Prompt]:
    """Return the prompts among samples: the first sample of each, whichever are there."""
    firsts = {each.prompt_id: each for each in prompts}
    return [replace(each, sample=1) for each in firsts.values()]


def draw_stratified(
    prompts: Sequence[Prompt], *, strata: Mapping[str, int], seed: int
) -> list[Prompt]:
    """Draw a fixed number of prompts from each source and keep them in bank order.

    One `numpy.random.default_rng(seed)` serves all strata, taken in the order of their names, so
    that the draw does not depend on the order in which a config lists them.

    Args:
        prompts: The whole bank, in bank order.
        strata: How many prompts to draw from each source.
        seed: Seeds the draw.

    Raises:
        InputError: With every stratum that the bank cannot fill.
    """
    available = Counter(prompt.source for prompt in prompts)
    problems = Problems()
    for source, size in sorted(strata.items()):
        if available[source] < size:
            sources = sorted(available.keys() - {source})
            problems.add(
                f"stratum {source!r} asks for {size} prompts and the bank has "
                f"{available[source]} of this source; expected no more, or another source "
                f"({', '.join(sources)}); lower the number or add prompts{hint_at(source, sources)}"
            )
    problems.raise_if_any()
    generator = np.random.default_rng(seed)
    chosen: set[str] = set()
    for source, size in sorted(strata.items()):
        members = [prompt.prompt_id for prompt in prompts if prompt.source == source]
        picks = generator.choice(len(members), size=size, replace=False)
        chosen.update(members[pick] for pick in picks)
    return [prompt for prompt in prompts if prompt.prompt_id in chosen]


def share_of_each(prompts: Sequence[Prompt], share: float) -> dict[str, int]:
    """Return how many prompts of each source a share of it is, rounded up."""
    available = Counter(prompt.source for prompt in prompts)
    # Three tenths of ten are three, whatever the product of the floats says.
    return {source: math.ceil(share * count - 1e-9) for source, count in available.items()}


TIME = "seconds"
"""Diagnostic: the time of a response, an equal share of its batch. Measured, so not hashed."""


_OF_READING = frozenset({"thought", "thought_words", "end"})
"""Diagnostics that are read from a completion."""


@dataclass(frozen=True, slots=True)
class GeneratedResponse:
    """One entrant's answer to one prompt.

    Attributes:
        prompt_id: The prompt that was answered.
        text: The answer.
        finish_reason: `stop` (the model ended), `length` (the cap ended it), `recorded` (nobody
            says), or `other` (for a reason that nobody here knows).
        prompt_tokens: Tokens the model read; None where nobody counted.
        response_tokens: Tokens the model wrote; None where nobody counted.
        diagnostics: What the decoder noticed, as JSON values.
        sample: Which answer of the entrant to the prompt it is, from 1.
        completion: What the model wrote, as it came; None if that is the text alone.
    """

    prompt_id: str
    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    response_tokens: int | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    sample: int = 1
    completion: Completion | None = None

    @property
    def jury(self) -> Mapping[str, Sequence[Any]]:
        """What a jury of heads said about each token, by kind; empty without one."""
        jury: Mapping[str, Sequence[Any]] = self.diagnostics.get("jury", {})
        return jury

    def read(self, completion: Completion, *, cuts_thoughts: bool) -> GeneratedResponse | Reading:
        """Return the response that a completion holds; the reading where it holds none.

        Args:
            completion: What the model wrote. What it says replaces text and finish reason.
            cuts_thoughts: Whether thoughts in its text are no part of the response.
        """
        reading = read_completion(completion, cuts_thoughts=cuts_thoughts)
        if reading.answer is None:
            return reading
        others = {key: self.diagnostics[key] for key in self.diagnostics if key not in _OF_READING}
        unknown = {"end": completion.end} if reading.end is End.OTHER else {}
        plain = Completion.of_text(reading.answer, end=reading.end.value)
        is_plain = read_completion(plain, cuts_thoughts=True) == reading and not unknown
        return replace(
            self,
            text=reading.answer,
            finish_reason=reading.end.value,
            diagnostics={**others, **unknown, **reading.diagnostics},
            completion=None if is_plain else completion,
        )

    def read_again(self, *, cuts_thoughts: bool) -> GeneratedResponse | Reading:
        """Return a kept response as it is read today."""
        whole = self.completion or Completion.of_text(self.text, end=self.finish_reason)
        return self.read(whole, cuts_thoughts=cuts_thoughts)

    def timed(self, seconds: float) -> GeneratedResponse:
        """Return the response with the time that it took, in seconds, in its diagnostics."""
        return replace(self, diagnostics={**self.diagnostics, TIME: round(seconds, 4)})


def read_again(
    responses: Iterable[GeneratedResponse], *, cuts_thoughts: bool
) -> tuple[list[GeneratedResponse], dict[str, str]]:
    """Return responses as they are read today, and why others are none, by prompt id."""
    read = [(each, each.read_again(cuts_thoughts=cuts_thoughts)) for each in responses]
    missing = {
        each.prompt_id: reading.missing for each, reading in read if isinstance(reading, Reading)
    }
    return [each for _, each in read if isinstance(each, GeneratedResponse)], missing


def without_time(diagnostics: str) -> str:
    """Return diagnostics without the time, as stored: the rest is reproducible."""
    if f'"{TIME}"' not in diagnostics:
        return diagnostics
    values = json.loads(diagnostics)
    return json.dumps({name: values[name] for name in values if name != TIME}, sort_keys=True)


def repeat_for_samples(
    responses: Iterable[GeneratedResponse], prompts: Iterable[Prompt]
) -> list[GeneratedResponse]:
    """Return what an entrant with one answer to a prompt says in every sample of it."""
    answers = {response.prompt_id: response for response in responses}
    return [
        replace(answers[each.prompt_id], sample=each.sample)
        for each in prompts
        if each.prompt_id in answers
    ]


@dataclass(frozen=True, slots=True)
class JurySummary:
    """An entrant's diagnostics in a few numbers; a mean is over tokens, of all its responses.

    Attributes:
        verified_tokens: Tokens that a jury verified.
        resampled_tokens: How many of them it replaced.
        responses_resampled: Responses with at least one replaced token.
        mean_entropy: Of the verifiers' product, in nats.
        mean_suppression: Probability that the actual draft was rejected.
        mean_margin: Votes of the winner minus those of the runner-up.
        mean_stability_radius: Heads that can change their vote without the winner losing.
        mean_validity_radius: Heads that must change their vote for the token that stands to win.
    """

    verified_tokens: int
    resampled_tokens: int
    responses_resampled: int
    mean_entropy: float
    mean_suppression: float
    mean_margin: float
    mean_stability_radius: float
    mean_validity_radius: float

    @property
    def acceptance_rate(self) -> float:
        """Share of the drafts that stood."""
        return 1 - self.resampled_tokens / self.verified_tokens


def summarise_juries(responses: Iterable[GeneratedResponse]) -> JurySummary | None:
    """Sum up what the juries did; None if no token was verified."""
    juries = [response.jury for response in responses if response.jury.get("entropy")]
    if not juries:
        return None

    def mean(name: str) -> float:
        return fmean(value for jury in juries for value in jury[name])

    return JurySummary(
        verified_tokens=sum(len(jury["entropy"]) for jury in juries),
        resampled_tokens=sum(len(jury["resampled"]) for jury in juries),
        responses_resampled=sum(bool(jury["resampled"]) for jury in juries),
        mean_entropy=mean("entropy"),
        mean_suppression=mean("suppression"),
        mean_margin=mean("margin"),
        mean_stability_radius=mean("stability_radius"),
        mean_validity_radius=mean("validity_radius"),
    )


def count_heads(responses: Iterable[GeneratedResponse]) -> dict[int, int]:
    """Count how many responses each drawn head wrote, by its number."""
    drawn = Counter(
        response.diagnostics["head"]
        for response in responses
        if response.diagnostics.get("head") is not None
    )
    return dict(sorted(drawn.items()))


def mean_p_correct(responses: Iterable[GeneratedResponse]) -> float | None:
    """Mean probability by the uncertainty head; None if it was not asked about any response."""
    chances = [
        response.diagnostics["p_correct"]
        for response in responses
        if response.diagnostics.get("p_correct") is not None
    ]
    return fmean(chances) if chances else None
