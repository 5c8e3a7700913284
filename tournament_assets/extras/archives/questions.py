"""Composes requests about runs, and reads the scores in the judge's replies.

A request is composed from the run's file and files beside it; its key is the hash of what is sent.
Unlike a verdict, a score rates a single response. The service enforces a JSON object as the reply,
with the reason first, so that the score follows from it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, cast

from tournament_assets.extras.archives.config import ArchiveFile, JudgeInput, Rejudging
from tournament_assets.extras.archives.documents import is_blank, number_of
from tournament_assets.extras.archives.harness import NewScore, RewritingReader
from tournament_assets.extras.archives.runs import ArchivedRun
from tournament_assets.foundation.errors import InputError, VerdictParseError
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.input_files import read_input_text
from tournament_assets.foundation.json_lines import parse_object
from tournament_assets.foundation.yaml_files import parse_yaml
from tournament_assets.judging.batch_service import MessageParams
from tournament_assets.judging.requests.columns import ModelRequest
from tournament_assets.judging.requests.requests import fence_parts, printable, system_block
from tournament_assets.judging.requests.verdict_parsing import parse_answer
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.recorded.sample_formats import value_at
from tournament_assets.tournament.completions import End, end_of
from tournament_assets.tournament.judges import Judge


def require_rejudging(archive: ArchiveFile) -> Rejudging:
    """Return the settings for judging again."""
    if archive.config.rejudging is None:
        raise InputError(
            f"{archive.path}: rejudging is missing; expected the judge, the file of its prompt, "
            "and the places of the parts that the judge is shown; add it"
        )
    return archive.config.rejudging


class Questions:
    """Composes the requests about runs, from their files and from files beside them."""

    def __init__(self, archive: ArchiveFile) -> None:
        reader = archive.config.harness
        if not isinstance(reader, RewritingReader):
            raise InputError(
                f"{archive.path}: reader is {archive.config.reader!r}, which only reads; expected "
                "a RewritingReader, which can write a new score into a run's file"
            )
        self.reader: RewritingReader = reader
        self._rejudging = require_rejudging(archive)
        self._instructions = str(_read_file(archive.project / self._rejudging.prompt, as_text=True))
        self._archive = archive
        self._models = {model.model_id: model for model in archive.config.models}

    def ask(self, run: ArchivedRun, document: Mapping[str, Any]) -> ModelRequest:
        """Compose the request about a run.

        Raises:
            InputError: If a part is missing.
        """
        parts = {
            name: self._part(name, part, run, document)
            for name, part in self._rejudging.parts.items()
        }
        return build_score_request(self._instructions, parts, judge=self._rejudging.judge)

    def _part(
        self, name: str, part: JudgeInput, run: ArchivedRun, document: Mapping[str, Any]
    ) -> str:
        content: Any = document if part.file is None else self._file(part.file, run)
        if part.key is not None:
            content = value_at(content, part.key) if isinstance(content, Mapping) else None
        if is_blank(content):
            place = " in ".join(words for words in (part.key, part.file) if words is not None)
            raise InputError(f"{place} holds nothing; expected the {name} that is judged")
        if not isinstance(content, str):
            content = json.dumps(content, indent=1, ensure_ascii=False, default=str)
        return _cut(content, part.max_chars)

    def _file(self, pattern: str, run: ArchivedRun) -> Any:
        pattern = self._models[run.model_id].fill(pattern, task=run.task, run=run.run)
        matches = [path for path in self._archive.project.glob(pattern) if path.is_file()]
        if len(matches) != 1:
            raise InputError(f"{len(matches)} files match {pattern!r}; expected one")
        return _read_file(matches[0])


def _read_file(path: Path, *, as_text: bool = False) -> Any:
    """Return the content of a file, parsed if it is YAML or JSON."""
    try:
        text = read_input_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: the file cannot be read ({type(error).__name__}); expected text in UTF-8"
        ) from None
    if not text.strip():
        raise InputError(f"{path}: the file is empty; expected a text")
    suffix = "" if as_text else path.suffix.lower()
    if suffix in (".yaml", ".yml"):
        return parse_yaml(text, path.name).values
    return parse_object(text, path.name, strict=False) if suffix == ".json" else text


def _cut(text: str, max_chars: int | None) -> str:
    """Cut the middle out of a text that is too long: its beginning and end matter most."""
    if max_chars is None or len(text) <= max_chars:
        return text
    note = f"\n[… {len(text) - max_chars:,} characters left out …]\n"
    head = max_chars // 2
    return f"{text[:head]}{note}{text[len(text) - (max_chars - head) :]}"


SCORE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "score": {"type": "number"}},
    "required": ["reason", "score"],
    "additionalProperties": False,
}
"""The JSON schema of a reply."""


def build_score_request(
    instructions: str, parts: Mapping[str, str], *, judge: Judge
) -> ModelRequest:
    """Compose the request for a score; its key is the SHA-256 of its content and the judge.

    The instructions are the system prompt of every request. The parts follow in the user message,
    fenced as those of a pair.

    Args:
        parts: What the judge is shown, by name.
    """
    further: Mapping[str, Any] = judge.further_params
    form = {"type": "json_schema", "schema": SCORE_SCHEMA}
    params = {
        "model": judge.model,
        "max_tokens": judge.max_tokens,
        "system": [system_block(printable(f"{instructions.strip()}\n"))],
        "messages": [{"role": "user", "content": fence_parts(parts.items())}],
        **further,
        "output_config": {**further.get("output_config", {}), "format": form},
        **({} if judge.temperature is None else {"temperature": judge.temperature}),
    }
    identity = judge.identity
    key = fingerprint({**identity, "params": params} if identity else params)
    return ModelRequest(request_key=key, params=cast("MessageParams", params))


def parse_score(reply: str, *, ceiling: float) -> tuple[float, str]:
    """Parse a JSON reply into its score, from 0 to the ceiling, and its reason.

    Raises:
        VerdictParseError: If the reply is not a JSON object with exactly these two keys, or if its
            score or reason is invalid: nothing is guessed.
    """
    try:
        members = parse_object(reply, "the judge's reply")
    except InputError:
        members = {}
    score, reason = number_of(members.get("score")), members.get("reason")
    is_reason = isinstance(reason, str) and reason.strip()
    is_score = score is not None and 0 <= score <= ceiling
    if len(members) != 2 or score is None or not (is_reason and is_score):
        raise VerdictParseError(
            f"the judge's reply is {reply[:80]!r}; expected one JSON object and nothing else, with "
            f'a text under "reason" and a number from 0 to {ceiling:g} under "score"'
        )
    return score, str(reason)


def read_scores(
    replies: Iterable[StoredReply], *, ceiling: float
) -> tuple[dict[str, NewScore], dict[str, str]]:
    """Read the scores in some replies.

    Returns:
        The first score of each request that has one, by its key; and why the newest reply without a
        score has none.
    """
    scores: dict[str, NewScore] = {}
    problems: dict[str, str] = {}
    for reply in replies:
        try:
            scores.setdefault(reply.request_key, _read_score(reply, ceiling=ceiling))
        except VerdictParseError as error:
            problems[reply.request_key] = str(error)
    return scores, problems


def _read_score(reply: StoredReply, *, ceiling: float) -> NewScore:
    if reply.result_type != "succeeded":
        raise VerdictParseError(
            f"the service answered {reply.error_type or reply.result_type!r}; expected a reply"
        )
    # An interrupted reply does not count, even if it can be parsed.
    if end_of(reply.stop_reason) not in (End.STOP, End.UNSAID, End.OTHER):
        raise VerdictParseError(
            f"the judge's reply stopped with {reply.stop_reason!r}; expected 'end_turn'"
        )
    score, reason = parse_answer(reply.text or "", partial(parse_score, ceiling=ceiling))
    return NewScore(
        score=score,
        reason=reason,
        model=reply.model,
        received_at=reply.received_at.astimezone(UTC).isoformat(timespec="seconds"),
        usage=None if reply.usage is None else asdict(reply.usage),
    )
