"""Recorded responses: a file's answers to the prompts of a bank.

Rows are matched to prompts by text or by id. If a row has the text, the text decides: an id that
matches a prompt with another text is a coincidence, or the prompt has since changed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.recorded.sample_formats import NO_TEXT, OWN, Sample
from tournament_assets.recorded.samples import SampleFile, read_samples
from tournament_assets.tournament.completions import (
    Completion,
    End,
    Reading,
    parts_of,
)
from tournament_assets.tournament.entrants import RecordedEntrant
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

OUTSIDE = "a prompt that is not in the bank"
OTHER_TEXT = "a prompt of the bank by its id, with another text than there"
OTHER_MODEL = "another model's response"
SAME_AGAIN = "the same response once more"
_SHOWN_SYSTEM = 80


@dataclass(frozen=True, slots=True)
class RecordedResponses:
    """Responses that answer prompts of the bank.

    Attributes:
        responses: In bank order.
        format: The format they were read as.
        missing: Why a prompt that a row names has no response, by prompt id.
        left_out: What else the rows hold, counted by the reason for leaving it out.
        system: The system text under which all of them were written, if the file has it.
        note: What was assumed of the file, and which filled columns are not used.
    """

    responses: list[GeneratedResponse]
    format: str
    missing: Mapping[str, str]
    left_out: Mapping[str, int]
    system: str | None = None
    note: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence about what was left out and one about a system text, as needed."""
        used = f"{len(self.responses)} responses ({self.format}) are used"
        left_out = f"{used}; left out: {_listed(self.left_out)}" if self.left_out else ""
        beginning = " ".join((self.system or "").split())[:_SHOWN_SYSTEM]
        system = (
            f"all responses were written under one system text ({beginning!r}), which counts as a "
            "setting of the entrant: the judge does not see it"
            if self.system
            else ""
        )
        note = f"its file ({self.format}): {self.note}" if self.note else ""
        return tuple(sentence for sentence in (left_out, system, note) if sentence)


def load_recorded_responses(
    path: Path, entrant: RecordedEntrant, *, prompts: Sequence[Prompt]
) -> RecordedResponses:
    """Read an entrant's responses from a file.

    Args:
        entrant: Whose responses they are, and how to read the file.
        prompts: The whole bank; rows that answer another prompt are left out and counted.

    Raises:
        InputError: If the format cannot be detected or no row answers a prompt of the bank; with
            every row that cannot be used or contradicts an earlier one.
    """
    file = read_samples(path, format_name=entrant.format, columns=entrant.columns)
    return match_responses(file, entrant, title=str(path), prompts=prompts)


def match_responses(
    file: SampleFile, entrant: RecordedEntrant, *, title: str, prompts: Sequence[Prompt]
) -> RecordedResponses:
    """Match responses with the prompts of a bank.

    Args:
        title: Where the responses are from, for messages.
        prompts: The whole bank.
    """
    _refuse_other_models(file, entrant, title=title)
    problems = Problems(of_file=True)
    bank = _Bank(prompts)
    samples: dict[str, Sample] = {}
    responses: dict[str, GeneratedResponse] = {}
    missing: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    for sample in file.samples:
        if entrant.model is not None and sample.model != entrant.model:
            left_out[OTHER_MODEL] += 1
            continue
        problem = _problem_of(sample, file, entrant)
        if problem is not None:
            problems.add(f"{sample.where}: {problem}")
            continue
        of_sample = bank.prompts_of(sample)
        left_out.update(sample.left_out if of_sample else [bank.reason_against(sample)])
        response = _read(sample, entrant)
        if isinstance(response, Reading):
            left_out.update([response.missing] if of_sample else [])
            missing.update((prompt.prompt_id, response.missing) for prompt in of_sample)
            continue
        for prompt in of_sample:
            first = samples.setdefault(prompt.prompt_id, sample)
            responses.setdefault(prompt.prompt_id, replace(response, prompt_id=prompt.prompt_id))
            if first is not sample and first.response == sample.response:
                left_out[SAME_AGAIN] += 1
            elif first is not sample:
                problems.add(
                    f"{sample.where}: prompt {prompt.prompt_id!r} is already answered at "
                    f"{first.where}; expected one response a prompt; remove one of the rows"
                )
    if not samples and not problems:
        problems.add(_nothing_fits(file, title, left_out))
    problems.raise_if_any()
    return RecordedResponses(
        [responses[prompt.prompt_id] for prompt in prompts if prompt.prompt_id in responses],
        file.format,
        {name: reason for name, reason in missing.items() if name not in samples},
        dict(sorted(left_out.items())),
        next((sample.system for sample in samples.values() if sample.system), None),
        file.note,
    )


def _listed(left_out: Mapping[str, int]) -> str:
    return "; ".join(f"{count} × {reason}" for reason, count in left_out.items())


class _Bank:
    def __init__(self, prompts: Sequence[Prompt]) -> None:
        self._by_id = {prompt.prompt_id: prompt for prompt in prompts}
        self._by_text: dict[str, list[Prompt]] = {}
        for prompt in prompts:
            self._by_text.setdefault(_comparable(prompt.text), []).append(prompt)

    def prompts_of(self, sample: Sample) -> list[Prompt]:
        """Return the prompts a row answers: all with its text, unless its id says which of them."""
        if not sample.prompt_texts:
            return self._named(sample)[:1]
        texts = (_comparable(text) for text in sample.prompt_texts)
        alike = next((self._by_text[text] for text in texts if text in self._by_text), [])
        return [prompt for prompt in alike if prompt.prompt_id in sample.prompt_ids] or alike

    def reason_against(self, sample: Sample) -> str:
        """Explain why a row answers nothing."""
        return OTHER_TEXT if self._named(sample) else OUTSIDE

    def _named(self, sample: Sample) -> list[Prompt]:
        return [self._by_id[name] for name in sample.prompt_ids if name in self._by_id]


def _comparable(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _read(sample: Sample, entrant: RecordedEntrant) -> GeneratedResponse | Reading:
    if sample.lost or (sample.response is None and sample.missing != NO_TEXT):
        return Reading(None, None, End.UNSAID, sample.lost or sample.missing)
    parts = () if sample.response is None else parts_of(sample.response)
    response = GeneratedResponse(
        prompt_id="",
        text="",
        finish_reason="",
        prompt_tokens=sample.prompt_tokens,
        response_tokens=sample.response_tokens,
    ).read(Completion(parts=parts, end=sample.finish_reason), cuts_thoughts=entrant.cuts_thoughts)
    if isinstance(response, Reading) and not parts and response.end is not End.FILTER:
        return replace(response, missing=NO_TEXT)
    return response


def _problem_of(sample: Sample, file: SampleFile, entrant: RecordedEntrant) -> str | None:
    if not sample.prompt_ids and not sample.prompt_texts:
        return "the row names no prompt; expected its id or its text"
    if file.format != OWN or sample.model in (None, entrant.entrant_id, entrant.model):
        return None
    return (
        f"the response is entrant {sample.model!r}'s; expected {entrant.entrant_id!r}'s; give each "
        "entrant a file of its own, or choose by model:"
    )


def _refuse_other_models(file: SampleFile, entrant: RecordedEntrant, *, title: str) -> None:
    """Refuse a named model that the file lacks, and several models where none is named."""
    models = sorted({sample.model for sample in file.samples if sample.model is not None})
    listed = ", ".join(map(repr, models))[:300] or "no named model"
    if entrant.model is None and file.format != OWN and len(models) > 1:
        raise InputError(
            f"{title}: the responses are of {len(models)} models ({listed}); expected one; choose "
            f"{entrant.entrant_id}'s by model:"
        )
    if entrant.model is not None and entrant.model not in models:
        raise InputError(
            f"{title}: model is {entrant.model!r}, and the responses are of {listed}; expected one "
            "of them"
        )


def _nothing_fits(file: SampleFile, title: str, left_out: Mapping[str, int]) -> str:
    if not file.samples:
        return f"{title}: the file holds no row; expected at least one response"
    first = file.samples[0]
    named = first.prompt_ids or tuple(text[:80] for text in first.prompt_texts[:1])
    return (
        f"{title}: none of {len(file.samples)} rows is a response to a prompt of the bank "
        f"({_listed(left_out)}); the first, {first.where}, names {' or '.join(map(repr, named))}; "
        "expected ids or texts of the prompt bank; make a bank of the same prompts by `tournament "
        "bank import`"
    )
