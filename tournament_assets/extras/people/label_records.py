"""People's labels: the sample of pairs they are asked about, and every vote they gave.

A sample belongs to a tournament, a mode and a dimension, and is drawn so that every pair's chance
is known. Nothing is changed or deleted: undoing a vote or extending a sample adds a row.
"""

import secrets
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, Self

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tournament_assets.extras.people import ledger_tables as schema
from tournament_assets.extras.people.judge_calibration import Labelling
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import fingerprint, fingerprint_text
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.ledger.database import LedgerDatabase, storable, time_text

GivenVote = Literal["a", "b", "tie", "both_bad", "undo"]
"""What a rater did on a pair: voted, or undid the last vote."""
DrawMethod = Literal["random", "judge", "active", "given"]
"""How a sample was drawn: uniformly; stratified by the judge's verdicts; by what a label is worth;
elsewhere, reportedly at random."""

_LONGEST_NAME = 60
_DRAWS, _PAIRS, _VOTES = schema.label_draws, schema.label_pairs, schema.label_votes
_SECRETS = schema.label_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledPair:
    """A pair that people are asked about.

    Attributes:
        pair_id: SHA-256 of the scope, the prompt, the entrants and the three texts, so a changed
            text makes a new pair.
        position: Its place in the order of drawing, from 0. Raters label in this order, so that
            stopping early still leaves a random sample.
        entrant_a: The pair's first entrant, as in `match_list`.
        entrant_b: The pair's second entrant.
        prompt_digest: SHA-256 of the prompt's text.
        digest_a: SHA-256 of the first entrant's response.
        digest_b: SHA-256 of the second entrant's response.
        chance: The probability that the pair is in this draw, above 0 and at most 1.
        stratum: The stratum it was drawn from; empty if there is only one.
        shared: Whether every rater is asked about it.
        sample: Which of the answers to the prompt are compared, from 1.
    """

    pair_id: str
    position: int
    prompt_id: str
    entrant_a: str
    entrant_b: str
    prompt_digest: str
    digest_a: str
    digest_b: str
    chance: float
    stratum: str = ""
    shared: bool = False
    sample: int = 1

    def is_of(self, *, prompt: str, response_a: str, response_b: str) -> bool:
        """Return whether these are the pair's texts."""
        texts = (prompt, response_a, response_b)
        digests = (self.prompt_digest, self.digest_a, self.digest_b)
        return tuple(map(fingerprint_text, texts)) == digests


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSample:
    """One draw of the pairs that people are asked about.

    Attributes:
        sample_id: Names the sample; the same in every draw that extends it.
        draw: 1, and one more for each extension.
        dimension: The quality people are asked about; None asks which is better in general.
        seed: Seeds the draw and the sides.
        frame_size: How many pairs it was drawn from.
        same_text: How many pairs were left out because both responses are the same text.
        overlap: Share of the pairs that every rater is asked about.
        pairs: In the order of drawing.
        drawn_at: In UTC.
    """

    sample_id: str
    draw: int
    tournament_id: str
    mode: str
    dimension: str | None
    method: DrawMethod
    seed: int
    frame_size: int
    same_text: int
    overlap: float
    pairs: tuple[SampledPair, ...]
    drawn_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelVote:
    """One vote or undoing by a rater on a pair.

    Attributes:
        vote_id: Names the vote; a second vote with the same name is ignored.
        vote: Refers to the pair's entrants, not to the sides.
        shown: `ab` if entrant a's response was shown first, `ba` otherwise.
        given_at: In UTC; a rater's latest vote on a pair counts.
        origin: `page`, `file`, or the tool it was imported from.
        rubric_hash: SHA-256 of the rubric the rater could read; None if there was none.
        seconds: How long the rater looked at the pair; None if not measured.
    """

    vote_id: str
    sample_id: str
    pair_id: str
    rater: str
    vote: GivenVote
    shown: Literal["ab", "ba"]
    given_at: datetime
    origin: str = "page"
    rubric_hash: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Label(Labelling):
    """A rater's final vote on a pair of a sample's latest draw.

    Attributes:
        pair: The pair, with its chance of having been labelled.
    """

    pair: SampledPair


def clean_rater(name: object) -> str:
    """Return a rater's name without outer white space, in composed characters (NFC).

    Raises:
        InputError: If it is not a name that can be shown.
    """
    cleaned = " ".join(name.split()) if isinstance(name, str) else ""
    cleaned = unicodedata.normalize("NFC", cleaned)
    if not (0 < len(cleaned) <= _LONGEST_NAME and cleaned.isprintable()):
        raise InputError(
            f"the rater is {name!r:.100}; expected a name of 1 to {_LONGEST_NAME} printable "
            "characters"
        )
    return cleaned


def compared(rater: str) -> str:
    """Return a rater's name as names are compared: without case, in decomposed characters (NFD)."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", rater).casefold())


def shown_pair_id(pair_id: str, salt: str) -> str:
    """Return the name of a pair on a page, which no guess of its entrants leads to."""
    return fingerprint(["shown", salt, pair_id])


def time_of(value: object) -> datetime | None:
    """Read a time with its zone; None if it is not a plausible one."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    # Within these years, no time zone can take a datetime out of its range.
    is_plausible = moment is not None and moment.tzinfo is not None and 2000 <= moment.year < 2200
    return moment if is_plausible else None


def sample_id_of(tournament_id: str, mode: str, dimension: str | None) -> str:
    """Return the name of a scope's only sample."""
    return fingerprint(["labels", tournament_id, mode, dimension or ""])[:32]


def pair_identity(
    pair: PairToJudge, tournament_id: str, mode: str, dimension: str | None
) -> dict[str, Any]:
    """Return what identifies a pair: its `pair_id`, prompt, sample, entrants and digests."""
    texts = (pair.prompt_text, pair.response_a, pair.response_b)
    digests = tuple(map(fingerprint_text, texts))
    names = (pair.name, pair.entrant_a, pair.entrant_b)
    return {
        "pair_id": fingerprint([sample_id_of(tournament_id, mode, dimension), *names, *digests]),
        **{key: getattr(pair, key) for key in ("prompt_id", "sample", "entrant_a", "entrant_b")},
        **dict(zip(("prompt_digest", "digest_a", "digest_b"), digests, strict=True)),
    }


class LabelRecords(LedgerDatabase):
    """The part of a ledger that holds people's votes on pairs."""

    @classmethod
    def of(cls, ledger: LedgerDatabase) -> Self:
        """Return this part of an open ledger; it uses the ledger's connections."""
        records = cls.__new__(cls)
        records._where, records._engine = ledger._where, ledger._engine
        return records

    def label_sample(
        self, tournament_id: str, mode: str, dimension: str | None
    ) -> LabelSample | None:
        """Return the latest draw of a scope's sample; None if none was drawn."""
        return self.label_sample_named(sample_id_of(tournament_id, mode, dimension))

    def label_sample_named(self, sample_id: str) -> LabelSample | None:
        """Return the latest draw of a sample; None if there is no such sample."""
        latest = sa.select(_DRAWS).where(_DRAWS.c.sample_id == sample_id)
        with self._transaction() as connection:
            row = connection.execute(latest.order_by(_DRAWS.c.draw.desc()).limit(1)).one_or_none()
            if row is None:
                return None
            pairs = connection.execute(
                sa.select(_PAIRS)
                .where(_PAIRS.c.sample_id == sample_id, _PAIRS.c.draw == row.draw)
                .order_by(_PAIRS.c.position)
            ).all()
        values = dict(row._mapping)
        return LabelSample(
            **{
                **values,
                "dimension": values["dimension"] or None,
                "drawn_at": _moment(values["drawn_at"]),
                "pairs": tuple(_sampled_pair(each) for each in pairs),
            }
        )

    def sampled_pairs(self, sample_id: str) -> dict[str, SampledPair]:
        """Return every pair ever drawn for a sample, as it was last drawn.

        By its name on pages, and by its `pair_id`, which pages of an earlier version name it by.
        """
        query = sa.select(_PAIRS).where(_PAIRS.c.sample_id == sample_id).order_by(_PAIRS.c.draw)
        with self._transaction() as connection:
            pairs = {row.pair_id: _sampled_pair(row) for row in connection.execute(query)}
        salt = self.label_salt(sample_id)
        return pairs | {shown_pair_id(name, salt): pair for name, pair in pairs.items()}

    def label_salt(self, sample_id: str) -> str:
        """Return the secret of a sample, made when it is first asked for."""
        return self.keep_label_secret(sample_id, "", secrets.token_hex(32))

    def keep_label_secret(self, sample_id: str, rater: str, secret: str) -> str:
        """Store a secret unless one is stored under that name; return what is stored."""
        row = {"sample_id": sample_id, "rater": rater, "secret": secret}
        with self._transaction() as connection:
            self._insert_new(connection, _SECRETS, [row])
        return self.label_secrets(sample_id)[rater]

    def label_secrets(self, sample_id: str) -> dict[str, str]:
        """Return a sample's secrets by rater, with its salt under the empty name."""
        query = sa.select(_SECRETS).where(_SECRETS.c.sample_id == sample_id)
        with self._transaction() as connection:
            return {row.rater: row.secret for row in connection.execute(query)}

    def keep_label_sample(self, sample: LabelSample) -> bool:
        """Store a whole draw.

        Returns:
            False if another process stored that draw first: then read it again.
        """
        named = {"sample_id": sample.sample_id, "draw": sample.draw}
        values = {name: getattr(sample, name) for name in _DRAWS.columns.keys()}  # noqa: SIM118
        values |= {"dimension": sample.dimension or "", "drawn_at": time_text(sample.drawn_at)}
        with self._transaction() as connection:
            if not self._insert_new(connection, _DRAWS, [values]):
                return False
            self._insert_new(connection, _PAIRS, [named | asdict(each) for each in sample.pairs])
        return True

    def keep_votes(self, votes: Sequence[LabelVote]) -> int:
        """Store votes, in their order; those whose `vote_id` is already stored are skipped.

        Returns:
            How many of them are new.
        """
        if not votes:
            return 0
        now = time_text()
        dialect = postgresql if self._engine.dialect.name == "postgresql" else sqlite
        insert = dialect.insert(_VOTES).on_conflict_do_nothing(index_elements=["vote_id"])
        insert = insert.returning(_VOTES.c.sequence)
        added = 0
        with self._transaction() as connection:
            for vote in votes:
                row = {
                    **{name: getattr(vote, name) for name in LabelVote.__dataclass_fields__},
                    # A vote cannot be later than its arrival, whatever a clock says.
                    "given_at": min(time_text(vote.given_at), now),
                    "received_at": now,
                }
                added += len(connection.execute(insert.values(storable(row))).all())
        return added

    def iterate_votes(self, sample_id: str) -> Iterator[LabelVote]:
        """Yield every vote and undoing on a sample's pairs, in the order they arrived.

        Names that compare equal are one rater's, and spelled as they were first.
        """
        query = sa.select(_VOTES).where(_VOTES.c.sample_id == sample_id)
        with self._transaction() as connection:
            rows = connection.execute(query.order_by(_VOTES.c.sequence)).all()
        names: dict[str, str] = {}
        for row in rows:
            values = {name: row._mapping[name] for name in LabelVote.__dataclass_fields__}
            values["rater"] = names.setdefault(compared(row.rater), row.rater)
            yield LabelVote(**{**values, "given_at": _moment(values["given_at"])})

    def labels(self, tournament_id: str, mode: str, dimension: str | None) -> Iterator[Label]:
        """Yield raters' final votes on the pairs of a scope's latest draw.

        A rater's last vote on a pair counts, and none if it was undone. Votes on pairs that are no
        longer in the sample, such as those of changed responses, are left out; so `pair.is_of` is
        false only if responses have changed since the sample was drawn.

        `pair.chance` is the chance of having been labelled: since raters label in a random order,
        the labelled pairs of a stratum are a random draw from it, whatever their number. If pairs
        were drawn by worth, it remains the chance of the draw.

        Yields:
            Labels in the order of drawing; those on one pair by rater's name.
        """
        sample = self.label_sample(tournament_id, mode, dimension)
        if sample is None:
            return
        by_pair: dict[str, list[LabelVote]] = {}
        for _, vote in sorted(last_votes(self.iterate_votes(sample.sample_id)).items()):
            by_pair.setdefault(vote.pair_id, []).append(vote)
        for pair in _as_labelled(sample, by_pair):
            for vote in by_pair[pair.pair_id]:
                if vote.vote != "undo":
                    yield Label(rater=vote.rater, vote=vote.vote, pair=pair)


def last_votes(votes: Iterable[LabelVote]) -> dict[tuple[str, str], LabelVote]:
    """Return the votes that count by pair and rater, in the order they were given."""
    ordered = sorted(votes, key=lambda vote: vote.given_at)  # stable: equal times keep their order
    last = {(vote.pair_id, vote.rater): vote for vote in ordered}
    return {key: vote for key, vote in last.items() if vote.vote != "undo"}


def _as_labelled(sample: LabelSample, labelled: Collection[str]) -> Iterator[SampledPair]:
    """Yield the labelled pairs of a draw, each with its chance of having been labelled."""
    drawn = Counter(pair.stratum for pair in sample.pairs)
    counts = Counter(pair.stratum for pair in sample.pairs if pair.pair_id in labelled)
    for pair in sample.pairs:
        if pair.pair_id in labelled:
            share = 1.0 if sample.method == "active" else counts[pair.stratum] / drawn[pair.stratum]
            yield replace(pair, chance=pair.chance * share)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _sampled_pair(row: sa.Row[Any]) -> SampledPair:
    return SampledPair(**{name: row._mapping[name] for name in SampledPair.__dataclass_fields__})
