"""People's votes on pairs: those from our page, and labels from other tools.

A label from another tool is matched to a pair by its texts or, if it has none, by its prompt and
entrants' names. LMSYS on Kaggle, `train.csv`:
https://www.kaggle.com/competitions/lmsys-chatbot-arena/data
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from tournament_assets.battles.files import (
    ANONYMOUS,
    FLAG_COLUMNS,
    NO_FLAG,
    SELF,
    flagged_winner,
    reason_against,
)
from tournament_assets.extras.people.label_records import (
    GivenVote,
    LabelRecords,
    LabelSample,
    LabelVote,
    SampledPair,
    clean_rater,
    last_votes,
    pair_identity,
    sample_id_of,
    time_of,
)
from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.input_files import MOST_ROWS_BYTES, open_input, reading
from tournament_assets.foundation.json_lines import JsonObject, parse_object
from tournament_assets.judging.requests.pairs import PairToJudge, split_identical
from tournament_assets.storage.foreign_tables import LeftOut, Row, TableReader
from tournament_assets.storage.row_files import rows_in, sample_file

VOTES_FORMAT = "tournament-votes"
MAX_FILE_BYTES = 8 * 2**20
MAX_VOTES = 20_000
_ORIGIN = "lmsys"
_HEX = re.compile("[0-9a-f]{16,64}")
_SAID = {"A": "a", "B": "b", "tie": "tie", "both_bad": "both_bad", "undo": "undo"}
_LONGEST_SECONDS = 86_400.0

LATER_TURNS = "a conversation of several turns, or a later turn of one"
NO_PAIR = "no pair of the mode has these texts or names"
SAME_TEXT = "both responses are the same text"
NOT_DRAWN = "the pair is not in the sample"


_LONGEST_ID = 40
_CONVERSATIONS = frozenset({"conversation_a", "conversation_b", "conversation"})
_KNOWN = frozenset(
    {"question_id", "judge", "winner", "model_a", "model_b", "response_a", "response_b", "turn"}
    | {"prompt", ANONYMOUS}
    | _CONVERSATIONS
    | FLAG_COLUMNS.keys()
)
_MAX_FOREIGN_BYTES = 256 * 2**20
_WORDS: Mapping[str, GivenVote] = {
    "model_a": "a",
    "model_b": "b",
    "a": "a",
    "b": "b",
    "tie": "tie",
    **dict.fromkeys(("both_bad", "both bad", "tie (bothbad)"), "both_bad"),
}


@dataclass(frozen=True, slots=True)
class ForeignVote:
    """A vote as another tool's file has it.

    Attributes:
        name: Identifies it in that tool.
        word: `a` for the response shown first, `b` for the other one.
        texts: The two responses, in the order shown; None if the file has none.
        models: Who wrote them, in that order; None if the file does not say.
        columns: Every text in the row, one of which is the prompt or its id, by its column.
    """

    name: str
    rater: str
    word: GivenVote
    texts: tuple[str, str] | None
    models: tuple[str, str] | None
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """What a file itself may not say.

    Attributes:
        rater: Who labelled, if the file does not say; None treats every row as another rater's.
        sides: The columns of the response shown first and of the other one.
    """

    rater: str | None = None
    sides: tuple[str, str] | None = None


def read_foreign_votes(
    path: Path, options: ReadingOptions, reader: TableReader
) -> list[ForeignVote]:
    """Read the rows of another tool's file, in any container.

    Args:
        reader: Counts the rows that are left out, and the columns that are not used.
    """
    with reading(path, "a file of labels"):
        size = path.stat().st_size
    if size > _MAX_FOREIGN_BYTES:
        raise InputError(
            f"{path}: larger than {_MAX_FOREIGN_BYTES // 2**20} MiB; expected fewer labels"
        )
    n_rows: Counter[str] = Counter()

    def read(_: str, row: Row) -> Iterator[ForeignVote | LeftOut]:
        cells = ["" if value is None else str(value) for value in row.values()]
        name = str(row.get("id") or row.get("question_id") or fingerprint(cells)[:12])
        rater = row.get("judge") or options.rater
        if not rater:
            # Such rows are of different people, even if their ids name the prompt.
            n_rows[name] += 1
            name += f" ({n_rows[name]})" if n_rows[name] > 1 else ""
            rater = f"unnamed {name if len(name) <= _LONGEST_ID else fingerprint(name)[:12]}"
        yield _read_vote(row, name, clean_rater(str(rater)), options.sides)

    return list(reader.values(rows_in(path, sample_file(path).kind), read))


def _read_vote(
    row: Row, name: str, rater: str, named_sides: tuple[str, str] | None
) -> ForeignVote | LeftOut:
    sides = named_sides or ("response_a", "response_b")
    turns = {key: each for key, value in row.items() if (each := _turns(value)) is not None}
    # An answer may be a list itself; a conversation has one on every side of it.
    is_chat = turns.keys() > {*sides}
    flat = {key: value for key, value in row.items() if isinstance(value, str)}
    if is_chat:
        flat |= {key: each[0] for key, each in turns.items() if len(each) == 1}
    texts, models = _both(flat, sides), _both(flat, ("model_a", "model_b"))
    n_turns = [len(each) for key, each in turns.items() if is_chat or key in _CONVERSATIONS]
    is_later = max(n_turns, default=1) > 1 or row.get("turn") not in (None, 1, "1", "1.0")
    itself = models is not None and models[0] == models[1]
    reason = reason_against(row) or (SELF if itself else LATER_TURNS if is_later else None)
    if reason is not None:
        return LeftOut(reason)
    if named_sides and texts is None:
        raise InputError(f"{' and '.join(sides)} hold no text; expected the two responses")
    winner = row.get("winner") or flagged_winner(row)
    if winner is None:
        return LeftOut(NO_FLAG)
    vote = _WORDS.get(str(winner).lower())
    if vote is None:
        raise InputError(f"the winner is {winner!r:.80}; expected one of {', '.join(_WORDS)}")
    columns = {key: plain_text(text) for key, text in flat.items()}
    return ForeignVote(name, rater, vote, texts, models, columns)


def _turns(value: object) -> list[str] | None:
    """Return what was said in each turn: a list of texts, or the user's messages of a chat."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(each, dict) for each in value):
        return [str(each.get("content")) for each in value if each.get("role") == "user"]
    return value if all(isinstance(each, str) for each in value) else None


def _both(flat: Mapping[str, str], keys: tuple[str, str]) -> tuple[str, str] | None:
    one, other = flat.get(keys[0]), flat.get(keys[1])
    return None if one is None or other is None else (one, other)


def plain_text(text: str) -> str:
    """Return a text without the changes tools may make to it: line ends and outer white space."""
    return text.replace("\r\n", "\n").strip()


def said_as_shown(vote: LabelVote) -> str:
    """Return a vote in the words of the page, where A is the response shown first."""
    if vote.vote in ("a", "b"):
        return "A" if (vote.vote == "a") == (vote.shown == "ab") else "B"
    return vote.vote


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

    A row has `id`, 16 to 64 hexadecimal digits that name the vote permanently; `pair`; `first`, the
    SHA-256 of the text shown first; `said`: `A`, `B`, `tie`, `both_bad` or `undo`; its time: `age`
    in milliseconds before now, or `at`, in UTC; and perhaps `seconds`.

    Args:
        rows: The rows, not yet validated.
        rater: Who voted.
        pairs: Every pair ever drawn for the sample, by its name on pages.
        rubric_hash: SHA-256 of the rubric that the rater could read.
        now: The time from which ages count back; the current time by default.

    Raises:
        InputError: With every problem of every row.
    """
    if not isinstance(rows, list):
        raise InputError(f"the votes are {type(rows).__name__}; expected a list")
    if len(rows) > MAX_VOTES:
        raise InputError(f"there are {len(rows)} votes; expected at most {MAX_VOTES}")
    now = now or datetime.now(UTC)
    problems = Problems(of_file=True)
    votes: list[LabelVote] = []
    for number, row in enumerate(rows, start=1):
        row_problems = list(_row_problems(row, pairs))
        if row_problems:
            problems.extend(f"vote {number}: {problem}" for problem in row_problems)
            continue
        pair = pairs[row["pair"]]
        order: Literal["ab", "ba"] = "ab" if row["first"] == pair.digest_a else "ba"
        word = _SAID[row["said"]]
        if word in ("a", "b") and order == "ba":
            word = "b" if word == "a" else "a"
        votes.append(
            LabelVote(
                vote_id=row["id"],
                sample_id=sample_id,
                pair_id=pair.pair_id,
                rater=rater,
                vote=word,  # type: ignore[arg-type]  # one of the words of _SAID
                shown=order,
                given_at=_when(row, now),
                origin=origin,
                rubric_hash=rubric_hash,
                seconds=row.get("seconds"),
            )
        )
    problems.raise_if_any()
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
        if time_of(row["at"]) is None:
            yield f"at is {row['at']!r:.80}; expected a time such as 2026-03-01T12:00:00Z"
    elif not _is_number(row.get("age"), 1e13):
        yield f"age is {row.get('age')!r:.80}; expected milliseconds from 0"


def _is_number(value: object, most: float) -> bool:
    return type(value) in (int, float) and 0 <= value <= most  # type: ignore[operator]


def _when(row: JsonObject, now: datetime) -> datetime:
    moment = time_of(row["at"]) if "at" in row else None
    if moment is not None:
        return moment.astimezone(UTC)
    return now - min(timedelta(milliseconds=float(str(row["age"]))), timedelta(days=365))


@dataclass(frozen=True, slots=True)
class ImportedVotes:
    """The result of importing a file of votes.

    Attributes:
        votes: How many votes on pairs of the sample the file has, including undoings.
        added: How many of them are new.
        rater: Who gave them; empty if the file is another tool's, which may have several raters.
        left_out: The other votes of another tool's file, counted by reason.
        note: Which filled columns are not used; empty without any.
    """

    votes: int
    added: int
    rater: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)
    note: str = ""


def import_votes(path: Path, *, tournament_id: str, ledger: LabelRecords) -> ImportedVotes:
    """Store all votes of a file that a page saved, or none; those already stored are skipped."""
    values, problems = _read_file(path), Problems()
    if values.get("format") != VOTES_FORMAT or values.get("version") != 1:
        problems.add(
            f"format and version are {values.get('format')!r:.60} and "
            f"{values.get('version')!r:.60}; expected {VOTES_FORMAT!r} and 1"
        )
    rater, sample = "", None
    with problems.collected():
        rater = clean_rater(values.get("rater"))
    name = values.get("sample")
    if isinstance(name, str):
        sample = ledger.label_sample_named(name)
    if sample is None or sample.tournament_id != tournament_id:
        problems.add(
            f"sample is {name!r:.80}; expected one that was drawn for the tournament "
            f"{tournament_id!r} and is in its ledger"
        )
        sample = None
    rubric = values.get("rubric")
    if not (rubric is None or (isinstance(rubric, str) and _HEX.fullmatch(rubric))):
        problems.add(f"rubric is {rubric!r:.80}; expected 64 hexadecimal digits")
    votes: list[LabelVote] = []
    if sample is not None:
        with problems.collected():
            votes = read_votes(
                values.get("votes"),
                rater=rater,
                sample_id=sample.sample_id,
                pairs=ledger.sampled_pairs(sample.sample_id),
                origin="file",
                rubric_hash=rubric if isinstance(rubric, str) else None,
            )
    problems.raise_if_any(lambda found: [f"{path.name}: {problem}" for problem in found])
    return ImportedVotes(len(votes), ledger.keep_votes(votes), rater)


def _read_file(path: Path) -> JsonObject:
    """Read a JSON object from a file small enough to be a page's."""
    with reading(path, "votes.json"), open_input(path, most=MOST_ROWS_BYTES) as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise InputError(
            f"{path.name}: larger than {MAX_FILE_BYTES // 2**20} MiB; expected a votes.json that "
            "a labelling page saved"
        )
    return parse_object(content, path.name)


def votes_by_rater(votes: Iterable[LabelVote]) -> dict[str, int]:
    """Count the pairs that each rater has labelled."""
    return dict(sorted(Counter(rater for _, rater in last_votes(votes)).items()))


_Found = tuple[PairToJudge, Literal["ab", "ba"]]


class _Pairs:
    """Finds pairs by what another tool records of them; `columns` name their prompts."""

    def __init__(self, pairs: Iterable[PairToJudge]) -> None:
        self.columns: set[str] = set()
        self._by_texts: dict[tuple[str, str], list[_Found]] = {}
        self._by_names: dict[tuple[str, str], list[_Found]] = {}
        for pair in pairs:
            texts = (plain_text(pair.response_a), plain_text(pair.response_b))
            names = (pair.entrant_a, pair.entrant_b)
            for index, both in ((self._by_texts, texts), (self._by_names, names)):
                index.setdefault(both, []).append((pair, "ab"))
                index.setdefault(both[::-1], []).append((pair, "ba"))

    def find(self, vote: ForeignVote) -> list[_Found]:
        """Return all pairs that match a vote, each with the order in which it was shown."""
        named = self._by_names.get(vote.models, []) if vote.models else []
        if vote.texts is not None and any(vote.texts):
            matches = self._by_texts.get((plain_text(vote.texts[0]), plain_text(vote.texts[1])), [])
            matches = [match for match in matches if match in named] if named else matches
        else:
            matches = named
        matches = [
            (pair, order)
            for pair, order in matches
            if {pair.prompt_id, plain_text(pair.prompt_text)} & {*vote.columns.values()}
        ]
        prompts = {
            text for pair, _ in matches for text in (pair.prompt_id, plain_text(pair.prompt_text))
        }
        self.columns |= {name for name, text in vote.columns.items() if text in prompts}
        return matches


def import_foreign_votes(
    path: Path,
    *,
    options: ReadingOptions,
    pairs: Sequence[PairToJudge],
    scope: tuple[str, str, str | None],
    is_random: bool,
    ledger: LabelRecords,
) -> ImportedVotes:
    """Store another tool's labels on a mode's pairs; those already stored are skipped.

    Args:
        pairs: All pairs of the mode.
        scope: The tournament, the mode and the dimension that was labelled.
        is_random: Whether the user says that the labelled pairs are a random draw of all pairs.
            They then become the sample if none was drawn here.
    """
    reader = TableReader({*_KNOWN, *(options.sides or ())})
    foreign = read_foreign_votes(path, options, reader)
    left_out, index = Counter(reader.left_out), _Pairs(pairs)
    votes: list[LabelVote] = []
    labelled: dict[str, PairToJudge] = {}
    now = datetime.now(UTC)
    for foreign_vote in foreign:
        matches = index.find(foreign_vote)
        if not matches:
            left_out[NO_PAIR] += 1
        elif matches[0][0].response_a == matches[0][0].response_b:
            left_out[SAME_TEXT] += 1
            continue
        for pair, order in matches:
            pair_id = pair_identity(pair, *scope)["pair_id"]
            labelled.setdefault(pair_id, pair)
            votes.append(_vote(foreign_vote, pair_id, order, scope=scope, now=now))
    sample = _sample(pairs, labelled, scope=scope, is_random=is_random, ledger=ledger, path=path)
    drawn = {pair.pair_id for pair in sample.pairs}
    drawn_votes = [vote for vote in votes if vote.pair_id in drawn]
    if len(drawn_votes) < len(votes):
        left_out[NOT_DRAWN] += len(votes) - len(drawn_votes)
    reader.use(index.columns)
    return ImportedVotes(
        len(drawn_votes),
        ledger.keep_votes(drawn_votes),
        left_out=dict(left_out),
        note=reader.note,
    )


def _vote(
    vote: ForeignVote,
    pair_id: str,
    order: Literal["ab", "ba"],
    *,
    scope: tuple[str, str, str | None],
    now: datetime,
) -> LabelVote:
    word = vote.word
    if order == "ba" and word in ("a", "b"):
        word = "b" if word == "a" else "a"
    return LabelVote(
        vote_id=fingerprint([_ORIGIN, vote.name, vote.rater, pair_id, vote.word]),
        sample_id=sample_id_of(*scope),
        pair_id=pair_id,
        rater=vote.rater,
        vote=word,
        shown=order,
        given_at=now,
        origin=_ORIGIN,
    )


def _sample(
    pairs: Sequence[PairToJudge],
    labelled: Mapping[str, PairToJudge],
    *,
    scope: tuple[str, str, str | None],
    is_random: bool,
    ledger: LabelRecords,
    path: Path,
) -> LabelSample:
    """Return the scope's sample, or make one from the pairs labelled elsewhere."""
    before = ledger.label_sample(*scope)
    if before is not None and not (before.method == "given" and is_random):
        return before
    if not is_random:
        raise InputError(
            f"{path}: no sample was drawn for mode {scope[1]!r}, so the chances with which "
            "these pairs were chosen are unknown; draw one by `tournament label` and label it, or "
            "say --random if they are a random draw of all pairs of the mode"
        )
    different, same = split_identical(pairs)
    by_id = {pair_identity(pair, *scope)["pair_id"]: pair for pair in different}
    earlier = () if before is None else (pair.pair_id for pair in before.pairs)
    order = [pair_id for pair_id in dict.fromkeys((*earlier, *labelled)) if pair_id in by_id]
    if not order:
        raise InputError(f"{path}: {NO_PAIR}; expected labels of pairs of mode {scope[1]!r}")
    sample = LabelSample(
        sample_id=sample_id_of(*scope),
        draw=1 if before is None else before.draw + 1,
        tournament_id=scope[0],
        mode=scope[1],
        dimension=scope[2],
        method="given",
        seed=0,
        frame_size=len(different),
        same_text=len(same),
        overlap=0.0,
        pairs=tuple(
            SampledPair(
                **pair_identity(by_id[pair_id], *scope),
                position=position,
                chance=len(order) / len(different),
                stratum="",
                shared=False,
            )
            for position, pair_id in enumerate(order)
        ),
        drawn_at=datetime.now(UTC),
    )
    if before is not None and [pair.pair_id for pair in before.pairs] == order:
        return before
    if not ledger.keep_label_sample(sample):
        raise InputError(f"{path}: another process is drawing this sample; run the command again")
    return sample
