"""Asking people which response is better: which pairs, in which order, shown how; what they said.

A sample is drawn by hashes of the pairs, so that one that is extended begins with the pairs it had,
and so that those who stop early leave a random sample as well. Everything that a rater is shown is
made here, and no entrant's name and no verdict is part of it: a pair is named by a hash, and a vote
says by a hash of the text which response stood first.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Literal

from tournament_assets.judging.requests.pairs import PairToJudge, split_identical
from tournament_assets.ledger import Ledger
from tournament_assets.ledger.labels import (
    DrawMethod,
    LabelSample,
    LabelVote,
    SampledPair,
    sample_id_of,
)
from tournament_assets.project.project_files import load_rubric
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint, fingerprint_text
from tournament_assets.tournament.prompts import CURATED_SOURCE
from tournament_assets.tournament.rubrics import Rubric
from tournament_assets.workflows.ledger_lookup import (
    known_responses,
    load_bank_and_selection,
    pairs_of_dimension,
)
from tournament_assets.workflows.plan import TournamentPlan

VOTES_FORMAT = "tournament-votes"
MAX_FILE_BYTES = 8 * 2**20
MAX_VOTES = 20_000
_LISTED_PROBLEMS = 50
_LONGEST_NAME = 60
_SAID = {"A": "a", "B": "b", "tie": "tie", "both_bad": "both_bad", "undo": "undo"}
_LONGEST_SECONDS = 86_400.0


def pairs_to_label(
    plan: TournamentPlan, mode: Mode, dimension: str | None, *, ledger: Ledger
) -> list[PairToJudge]:
    """Return the pairs of a mode whose responses exist, as they are judged on a dimension.

    Raises:
        InputError: If there is no such mode or dimension, the bank or a recorded file cannot be
            used, or there is no pair.
    """
    plan = plan.in_mode(mode)
    names = plan.config.dimension_names
    if dimension is not None and dimension not in names:
        raise InputError(f"the dimension is {dimension!r}; expected one of {', '.join(names)}")
    bank, prompts = load_bank_and_selection(plan, mode)
    responses = {
        (entrant.entrant_id, prompt_id): text
        for entrant in plan.config.entrants
        for prompt_id, text in known_responses(plan, entrant, bank, prompts, ledger=ledger).items()
    }
    found: dict[tuple[str, str, str], PairToJudge] = {}
    for each in names if dimension is None else (dimension,):
        for pair in pairs_of_dimension(plan, each, prompts, responses):
            found.setdefault((pair.prompt_id, pair.entrant_a, pair.entrant_b), pair)
    if not found:
        raise InputError(
            f"no prompt of mode {mode!r} has a response of every entrant yet; expected some; run "
            f"tournament run --config {plan.config_path} --mode {mode} --skip-judging first"
        )
    return list(found.values())


def draw_label_sample(
    pairs: Iterable[PairToJudge],
    *,
    tournament_id: str,
    mode: Mode,
    dimension: str | None,
    size: int,
    seed: int = 0,
    overlap: float = 0.2,
    strata: Mapping[tuple[str, str, str], str] | None = None,
    before: LabelSample | None = None,
) -> LabelSample:
    """Draw the pairs that people are asked about, or extend what was drawn before.

    The pairs of a stratum are put in the order of a hash of their names and the seed, and the
    first ones are drawn, as many of each stratum as of any other while they last. So the chance of
    a pair is the drawn share of its stratum, exactly; every beginning of a sample is the sample of
    that size; and pairs whose responses have changed keep their place. Responses of the same text
    are left out.

    Args:
        pairs: All pairs.
        tournament_id: The tournament.
        mode: The mode.
        dimension: The quality that people are asked for; None for which is better in general.
        size: How many pairs; all that there are where they are fewer.
        seed: Seeds the order and the sides.
        overlap: Share of the pairs that every rater is asked about, from 0 to 1.
        strata: The stratum of each pair, by prompt and entrants; None draws from all alike.
        before: The latest draw of the same scope. Nothing of it that is still there is lost,
            whatever the size.

    Raises:
        InputError: If the earlier draw had another seed or other strata.
    """
    different, same = split_identical(pairs)
    by_stratum: dict[str, list[tuple[str, PairToJudge]]] = {}
    for pair in different:
        names = (pair.prompt_id, pair.entrant_a, pair.entrant_b)
        stratum = "" if strata is None else strata.get(names, "not judged")
        by_stratum.setdefault(stratum, []).append((_place(seed, pair), pair))
    for members in by_stratum.values():
        members.sort(key=lambda member: member[0])
    method: DrawMethod = "random" if strata is None else "judge"
    order = list(_in_turn(by_stratum))
    if before is not None:
        size = max(size, _least_size(order, before, seed=seed, method=method))
    drawn = order[:size]
    n_drawn = Counter(stratum for stratum, _ in drawn)
    n_there = {stratum: len(members) for stratum, members in by_stratum.items()}
    return LabelSample(
        sample_id=sample_id_of(tournament_id, mode, dimension),
        draw=1 if before is None else before.draw + 1,
        tournament_id=tournament_id,
        mode=mode,
        dimension=dimension,
        method=method,
        seed=seed,
        frame_size=len(different),
        same_text=len(same),
        overlap=overlap,
        pairs=tuple(
            SampledPair(
                **_identity(pair, tournament_id, mode, dimension),
                position=position,
                chance=n_drawn[stratum] / n_there[stratum],
                stratum=stratum,
                shared=int((position + 1) * overlap) > int(position * overlap),
            )
            for position, (stratum, pair) in enumerate(drawn)
        ),
        drawn_at=datetime.now(UTC),
    )


def _place(seed: int, pair: PairToJudge) -> str:
    return fingerprint(["draw", seed, pair.prompt_id, *sorted((pair.entrant_a, pair.entrant_b))])


def _in_turn(
    by_stratum: Mapping[str, Sequence[tuple[str, PairToJudge]]],
) -> Iterator[tuple[str, PairToJudge]]:
    """Yield all pairs, one of each stratum after the other as long as they last."""
    longest = max(map(len, by_stratum.values()), default=0)
    for turn in range(longest):
        for stratum in sorted(by_stratum):
            members = by_stratum[stratum]
            if turn < len(members):
                yield stratum, members[turn][1]


def _identity(
    pair: PairToJudge, tournament_id: str, mode: Mode, dimension: str | None
) -> dict[str, str]:
    texts = (pair.prompt_text, pair.response_a, pair.response_b)
    digests = tuple(map(fingerprint_text, texts))
    names = (pair.prompt_id, pair.entrant_a, pair.entrant_b)
    return {
        "pair_id": fingerprint([sample_id_of(tournament_id, mode, dimension), *names, *digests]),
        **dict(zip(("prompt_id", "entrant_a", "entrant_b"), names, strict=True)),
        **dict(zip(("prompt_digest", "digest_a", "digest_b"), digests, strict=True)),
    }


def _least_size(
    order: Sequence[tuple[str, PairToJudge]],
    before: LabelSample,
    *,
    seed: int,
    method: DrawMethod,
) -> int:
    """Return how many pairs must be drawn so that none of an earlier draw is lost."""
    if (before.method, before.seed) != (method, seed):
        raise InputError(
            f"the sample was drawn with seed {before.seed}, {_DRAWN[before.method]}, and not with "
            f"seed {seed}, {_DRAWN[method]}; a sample can only be extended as it was drawn, since "
            "no chance would be known otherwise; give the same options"
        )
    names = {(each.prompt_id, each.entrant_a, each.entrant_b): each for each in before.pairs}
    last = -1
    for place, (stratum, pair) in enumerate(order):
        known = names.get((pair.prompt_id, pair.entrant_a, pair.entrant_b))
        if known is not None:
            last = place
            if known.stratum != stratum:
                raise InputError(
                    f"the pair of {known.entrant_a} and {known.entrant_b} on {known.prompt_id!r} "
                    f"was drawn where the judge said {known.stratum!r} and now it says "
                    f"{stratum!r}; expected the same verdicts as when the sample was drawn; label "
                    "what was drawn, without a larger --sample"
                )
    return last + 1


_DRAWN: dict[DrawMethod, str] = {
    "random": "at random",
    "judge": "by the judge's verdicts",
    "active": "where a label is worth most",
    "given": "by another tool",
}


@dataclass(frozen=True)
class LabelDesk:
    """A sample with all that raters are shown of it.

    Attributes:
        sample: The latest draw.
        texts: The pairs whose texts are those of the sample, by `pair_id`.
        rubrics: What raters can read, by dimension.
        shows_gold_answer: Whether they see the gold answer, where there is one.
        shows_expected_behavior: Whether they see the expected behaviour.
    """

    sample: LabelSample
    texts: Mapping[str, PairToJudge]
    rubrics: Mapping[str, Rubric]
    shows_gold_answer: bool = False
    shows_expected_behavior: bool = False

    @classmethod
    def of(
        cls, plan: TournamentPlan, sample: LabelSample, pairs: Iterable[PairToJudge]
    ) -> "LabelDesk":
        """Put a sample beside the texts of today.

        Raises:
            InputError: If a rubric cannot be used.
        """
        drawn = {each.pair_id for each in sample.pairs}
        texts = {}
        for pair in pairs:
            names = _identity(pair, sample.tournament_id, sample.mode, sample.dimension)
            if names["pair_id"] in drawn:
                texts[names["pair_id"]] = pair
        config, dimension = plan.config, sample.dimension
        rules = None if dimension is None else config.dimensions[dimension]
        return cls(
            sample=sample,
            texts=texts,
            rubrics={
                name: load_rubric(config, plan.project, name)
                for name in (config.dimension_names if dimension is None else (dimension,))
            },
            shows_gold_answer=rules is not None and rules.shows_gold_answer,
            shows_expected_behavior=rules is not None and rules.shows_expected_behavior,
        )

    @property
    def rubric_hash(self) -> str:
        """SHA-256 of what raters can read of how to judge."""
        return fingerprint({name: rubric.text for name, rubric in self.rubrics.items()})

    def page_values(self, rater: str, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return all that a rater's page shows, as JSON values without a name of an entrant.

        Args:
            rater: Who; decides the sides.
            state: What `rater_state` says.
        """
        dimension = self.sample.dimension
        return {
            "sample": self.sample.sample_id,
            "dimension": None if dimension is None else spoken(dimension),
            "rater": rater,
            "rubrics": [
                {"name": spoken(name), "text": _without_version(rubric.text)}
                for name, rubric in self.rubrics.items()
            ],
            "pairs": {
                pair_id: self._shown(pair_id, pair, rater) for pair_id, pair in self.texts.items()
            },
            **state,
        }

    def _shown(self, pair_id: str, pair: PairToJudge, rater: str) -> dict[str, Any]:
        responses = [pair.response_a, pair.response_b]
        if int(fingerprint(["side", self.sample.seed, pair_id, rater])[:8], 16) % 2:
            responses.reverse()
        behavior = pair.expected_behavior if self.shows_expected_behavior else None
        if pair.source != CURATED_SOURCE and pair.gold_answer is not None:
            behavior = None  # as the judge is shown it
        return {
            "prompt": pair.prompt_text,
            "gold": pair.gold_answer if self.shows_gold_answer else None,
            "expected": behavior,
            "A": responses[0],
            "B": responses[1],
            "first": fingerprint_text(responses[0]),
        }

    def rater_state(
        self, rater: str, votes: Iterable[LabelVote], raters: Collection[str]
    ) -> dict[str, Any]:
        """Return what is left for a rater to do, and what was done.

        Pairs that are not shared are dealt to the raters in turn; one that somebody has labelled
        is nobody else's any more.

        Args:
            rater: Who asks.
            votes: All votes on the sample, in the order in which they came.
            raters: Everybody who takes part, as far as it is known.

        Returns:
            `order`: pairs of the rater's to label, in the order of drawing; `others`: pairs of
            other raters that nobody has labelled; `done`: pairs and what the rater said, as shown,
            in the order in which it was said; `seconds`: the median time of a vote, or None.
        """
        last = last_votes(votes)
        mine = {pair_id: vote for (pair_id, name), vote in last.items() if name == rater}
        taken = {pair_id for pair_id, name in last if name != rater}
        dealt = sorted({*raters, rater, *(name for _, name in last)})
        order: list[str] = []
        others: list[str] = []
        n_single = 0
        for pair in self.sample.pairs:
            is_mine = pair.shared or dealt[n_single % len(dealt)] == rater
            n_single += not pair.shared
            if pair.pair_id in mine or pair.pair_id not in self.texts:
                continue
            if pair.shared or pair.pair_id not in taken:
                (order if is_mine else others).append(pair.pair_id)
        seconds = [vote.seconds for vote in mine.values() if vote.seconds is not None]
        done = sorted(mine.values(), key=lambda vote: vote.given_at)
        return {
            "order": order,
            "others": others,
            "done": [[vote.pair_id, said_as_shown(vote)] for vote in done],
            "seconds": median(seconds) if seconds else None,
        }


def spoken(dimension: str) -> str:
    """Return a dimension's name as a person would say it."""
    return dimension.replace("_", " ")


def _without_version(text: str) -> str:
    """Leave out the lines of a rubric that only programs read."""
    return re.sub(r"\A(?:#[^\n]*\n+)+", "", text)


def said_as_shown(vote: LabelVote) -> str:
    """Return a vote in the words of the page: A is the response that stood first."""
    if vote.vote in ("a", "b"):
        return "A" if (vote.vote == "a") == (vote.shown == "ab") else "B"
    return vote.vote


def last_votes(votes: Iterable[LabelVote]) -> dict[tuple[str, str], LabelVote]:
    """Return what counts of votes in the order in which they came, by pair and rater."""
    ordered = sorted(votes, key=lambda vote: vote.given_at)  # stable: equal times as they came
    last = {(vote.pair_id, vote.rater): vote for vote in ordered}
    return {key: vote for key, vote in last.items() if vote.vote != "undo"}


def clean_rater(name: object) -> str:
    """Return a rater's name without outer white space.

    Raises:
        InputError: If it is none that could be shown.
    """
    cleaned = " ".join(name.split()) if isinstance(name, str) else ""
    if not (0 < len(cleaned) <= _LONGEST_NAME and cleaned.isprintable()):
        raise InputError(
            f"the rater is {name!r:.100}; expected a name of 1 to {_LONGEST_NAME} printable "
            "characters"
        )
    return cleaned


_HEX = re.compile("[0-9a-f]{16,64}")


def read_votes(
    rows: object,
    *,
    rater: str,
    sample_id: str,
    pairs: Mapping[str, SampledPair],
    origin: Literal["page", "file"],
    rubric_hash: str | None,
    now: datetime | None = None,
) -> list[LabelVote]:
    """Read votes as a page writes them.

    A row has `id`, 16 to 64 hexadecimal digits that name the vote for ever; `pair`; `first`, the
    SHA-256 of the text that stood first; `said`: `A`, `B`, `tie`, `both_bad` or `undo`; when: `age`
    in milliseconds from now, or `at`, a time in UTC; and perhaps `seconds`.

    Args:
        rows: The rows, as they came.
        rater: Who voted.
        sample_id: The sample.
        pairs: Every pair that was ever drawn for it.
        origin: Where the votes come from.
        rubric_hash: SHA-256 of the rubric that the rater could read.
        now: The time that ages count from; now by default.

    Raises:
        InputError: With what is wrong with any row.
    """
    if not isinstance(rows, list):
        raise InputError(f"the votes are {type(rows).__name__}; expected a list")
    if len(rows) > MAX_VOTES:
        raise InputError(f"there are {len(rows)} votes; expected at most {MAX_VOTES}")
    now = now or datetime.now(UTC)
    problems: list[str] = []
    votes: list[LabelVote] = []
    for number, row in enumerate(rows, start=1):
        found = list(_row_problems(row, pairs))
        if found:
            problems += [f"vote {number}: {problem}" for problem in found]
            continue
        pair = pairs[row["pair"]]
        shown: Literal["ab", "ba"] = "ab" if row["first"] == pair.digest_a else "ba"
        said = _SAID[row["said"]]
        if said in ("a", "b") and shown == "ba":
            said = "b" if said == "a" else "a"
        votes.append(
            LabelVote(
                vote_id=row["id"],
                sample_id=sample_id,
                pair_id=pair.pair_id,
                rater=rater,
                vote=said,  # type: ignore[arg-type]  # one of the words of _SAID
                shown=shown,
                given_at=_when(row, now),
                origin=origin,
                rubric_hash=rubric_hash,
                seconds=row.get("seconds"),
            )
        )
    if problems:
        more = len(problems) - _LISTED_PROBLEMS
        tail = [f"and {more} more problems"] if more > 0 else []
        raise InputError([*problems[:_LISTED_PROBLEMS], *tail])
    return votes


def _row_problems(row: object, pairs: Mapping[str, SampledPair]) -> Iterator[str]:
    if not isinstance(row, dict):
        yield f"it is {type(row).__name__}; expected an object"
        return
    if not (isinstance(row.get("id"), str) and _HEX.fullmatch(row["id"])):
        yield f"id is {row.get('id')!r:.80}; expected 16 to 64 hexadecimal digits"
    pair = pairs.get(row["pair"]) if isinstance(row.get("pair"), str) else None
    if pair is None:
        yield f"pair is {row.get('pair')!r:.80}; expected a pair of the sample"
    elif row.get("first") not in (pair.digest_a, pair.digest_b):
        yield f"first is {row.get('first')!r:.80}; expected the SHA-256 of one of the two responses"
    if not (isinstance(row.get("said"), str) and row["said"] in _SAID):
        yield f"said is {row.get('said')!r:.80}; expected one of {', '.join(_SAID)}"
    seconds = row.get("seconds")
    if seconds is not None and not _is_number(seconds, _LONGEST_SECONDS):
        yield f"seconds is {seconds!r:.80}; expected a number from 0 to {_LONGEST_SECONDS:g}"
    if "at" in row:
        if _time_of(row["at"]) is None:
            yield f"at is {row['at']!r:.80}; expected a time such as 2026-03-01T12:00:00Z"
    elif not _is_number(row.get("age"), 1e13):
        yield f"age is {row.get('age')!r:.80}; expected milliseconds from 0"


def _is_number(value: object, most: float) -> bool:
    return type(value) in (int, float) and 0 <= value <= most  # type: ignore[operator]


def _time_of(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    # Within these years no time zone leads out of what a datetime can hold.
    known = moment is not None and moment.tzinfo is not None and 2000 <= moment.year < 2200
    return moment if known else None


def _when(row: Mapping[str, Any], now: datetime) -> datetime:
    given = _time_of(row["at"]) if "at" in row else None
    if given is not None:
        return given.astimezone(UTC)
    return now - min(timedelta(milliseconds=row["age"]), timedelta(days=365))


@dataclass(frozen=True, slots=True)
class ImportedVotes:
    """What a file of votes came to.

    Attributes:
        rater: Who voted.
        votes: Votes in the file, undoings among them.
        added: How many of them are new.
        sample: The sample they are of.
    """

    rater: str
    votes: int
    added: int
    sample: LabelSample


def import_votes(path: Path, *, tournament_id: str, ledger: Ledger) -> ImportedVotes:
    """Keep the votes of a file that a page was sent for; those that are held already stay.

    Raises:
        InputError: With everything that is wrong with the file; nothing of it is kept then.
    """
    values = _read_file(path)
    problems = []
    if values.get("format") != VOTES_FORMAT or values.get("version") != 1:
        problems.append(
            f"format and version are {values.get('format')!r:.60} and "
            f"{values.get('version')!r:.60}; expected {VOTES_FORMAT!r} and 1"
        )
    rater, sample = "", None
    try:
        rater = clean_rater(values.get("rater"))
    except InputError as error:
        problems += error.problems
    name = values.get("sample")
    if isinstance(name, str):
        sample = ledger.label_sample_named(name)
    if sample is None or sample.tournament_id != tournament_id:
        problems.append(
            f"sample is {name!r:.80}; expected one that was drawn for the tournament "
            f"{tournament_id!r} and is in its ledger"
        )
        sample = None
    rubric = values.get("rubric")
    if not (rubric is None or (isinstance(rubric, str) and _HEX.fullmatch(rubric))):
        problems.append(f"rubric is {rubric!r:.80}; expected 64 hexadecimal digits")
    votes: list[LabelVote] = []
    try:
        votes = read_votes(
            values.get("votes"),
            rater=rater or "nobody",
            sample_id="" if sample is None else sample.sample_id,
            pairs={} if sample is None else ledger.sampled_pairs(sample.sample_id),
            origin="file",
            rubric_hash=rubric if isinstance(rubric, str) else None,
        )
    except InputError as error:
        problems += error.problems if sample is not None else ()
    if problems or sample is None:
        raise InputError([f"{path.name}: {problem}" for problem in problems])
    return ImportedVotes(rater, len(votes), ledger.keep_votes(votes), sample)


def _read_file(path: Path) -> dict[str, Any]:
    """Read a JSON object, if its file is not too large to have been written by a page."""
    from tournament_assets.tournament.json_lines import parse_object

    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); expected votes.json"
        ) from None
    if len(content) > MAX_FILE_BYTES:
        raise InputError(
            f"{path.name}: larger than {MAX_FILE_BYTES // 2**20} MiB; expected a votes.json that "
            "a labelling page saved"
        )
    return parse_object(content, path.name)


def votes_by_rater(votes: Iterable[LabelVote]) -> dict[str, int]:
    """Count the pairs that each rater has labelled."""
    return dict(sorted(Counter(rater for _, rater in last_votes(votes)).items()))
