"""The rows of the tables that travel between assets: those that lead to the report, and reviews.

A field's type is that of its column, with `None` where a value may be absent, and its text
describes the column. `storage.tables` derives the Arrow schemas from these classes, in the order of
the fields. A `Display` beside the text says how people see the column; a property with one is a
column that only people see.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Protocol, Self, TypeVar

from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import (
    ABSENT,
    Display,
    format_estimate,
    format_interval,
    format_rating,
    format_share,
)
from tournament_assets.tournament.verdicts import Outcome, Verdict


class OfDimension(Protocol):
    """Whatever is about one quality that was judged."""

    @property
    def dimension(self) -> str:
        """The quality."""


Row = TypeVar("Row", bound=OfDimension)


def by_dimension(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows by dimension, in the order of their first rows."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.dimension, []).append(row)
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class PairColumns:
    """What the tables of pairs have in common."""

    prompt_id: Annotated[str, "the prompt both entrants answered"]
    sample: Annotated[int, "which of the answers to the prompt, from 1"] = 1
    source: Annotated[str, "the prompt's stratum"]
    dimension: Annotated[str, "the quality being judged"]
    entrant_a: Annotated[str, "the pair's first entrant"]
    entrant_b: Annotated[str, "the pair's second entrant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRow:
    """An entrant's answer to a prompt."""

    entrant_id: Annotated[str, "the entrant that answered"]
    prompt_id: Annotated[str, "what was answered"]
    sample: Annotated[int, "which of the answers to the prompt, from 1"] = 1
    response: Annotated[str, "the answer"]
    finish_reason: Annotated[str, "stop, length, other or recorded"]
    prompt_tokens: Annotated[int | None, "tokens the model read"] = None
    response_tokens: Annotated[int | None, "tokens the model wrote"] = None
    diagnostics: Annotated[str, "what the decoder noticed, as JSON"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRow(PairColumns):
    """A pair to judge, with everything that the judge is shown."""

    prompt_text: Annotated[str, "what they were asked"]
    response_a: Annotated[str, "the first entrant's answer"]
    response_b: Annotated[str, "the second entrant's answer"]
    gold_answer: Annotated[str | None, "the accepted answer"] = None
    expected_behavior: Annotated[str | None, "answer, hedge or abstain"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsRow:
    """Requests and cost of asking a judge about one dimension, or an entrant: planned or done."""

    asked: Annotated[str, "who is asked: the judge's model, or the entrant"]
    dimension: Annotated[str | None, "the quality being judged; absent of an entrant"] = None
    presentations: Annotated[int | None, "two for every pair"] = None
    identical: Annotated[int | None, "settled without asking: both responses are the same"] = None
    requests: Annotated[int, "different requests; of an entrant, selected prompts"]
    answered: Annotated[int, "requests that the ledger holds a reply to"]
    under_way: Annotated[int | None, "requests that were sent and will be collected"] = None
    to_ask: Annotated[int | None, "requests that are still to be sent"] = None
    prefix_tokens: Annotated[int | None, "tokens of the system prefix of each request"] = None
    message_tokens: Annotated[int | None, "tokens of all messages to send, without prefix"] = None
    output_tokens: Annotated[int | None, "tokens that the replies to them will take"] = None
    usd_uncached: Annotated[float | None, "US dollars without prompt caching"] = None
    usd_no_hits: Annotated[float | None, "US dollars if no request finds its prefix cached"] = None
    usd_observed: Annotated[float | None, "US dollars at the share of cache hits so far"] = None
    usd_all_hits: Annotated[float | None, "US dollars if all but the first find it cached"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReplyRow(PairColumns):
    """What the judge wrote to one presentation of a pair."""

    presentation: Annotated[str, "ab: entrant_a is shown as A; ba: as B"]
    request_key: Annotated[str, "SHA-256 of the request as sent"]
    attempt: Annotated[int, "1 for the first question, more after a failed reply"]
    judge_model: Annotated[str, "the model that judges"]
    rubric_version: Annotated[str, "the rubric's version line"]
    rubric_hash: Annotated[str, "SHA-256 of the rubric as the judge saw it"]
    result_type: Annotated[str, "succeeded, errored, pending, or identical: not asked"]
    channel: Annotated[str | None, "batch, or direct at twice the price"] = None
    stop_reason: Annotated[str | None, "why the judge stopped"] = None
    reply: Annotated[str | None, "what the judge wrote, verbatim"] = None
    error_type: Annotated[
        str | None,
        "the provider's name of the error; `unread` if the result was paid and cannot be read",
    ] = None
    input_tokens: Annotated[int | None, "uncached input tokens billed"] = None
    output_tokens: Annotated[int | None, "output tokens billed"] = None
    cache_creation_input_tokens: Annotated[int | None, "tokens written to the prompt cache"] = None
    cache_read_input_tokens: Annotated[int | None, "tokens read from the prompt cache"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow(PairColumns):
    """A pair settled from both presentations."""

    verdict_ab: Annotated[Verdict, "what the reply to presentation ab says"]
    verdict_ba: Annotated[Verdict, "what the reply to presentation ba says"]
    outcome: Annotated[Outcome, "a_wins, b_wins, tie, inconsistent, same_text or unjudged"]
    share: Annotated[float | None, "what entrant_a got of the win; absent: nothing decided"] = None
    weight: Annotated[float, "prompts it stands for: 1 unless it is one of a sample"] = 1.0
    winner: Annotated[str | None, "the entrant that won"] = None
    reason_ab: Annotated[str | None, "why presentation ab has no verdict"] = None
    reason_ba: Annotated[str | None, "why presentation ba has no verdict"] = None
    request_key_ab: Annotated[str, "SHA-256 of the request of presentation ab"]
    request_key_ba: Annotated[str, "SHA-256 of the request of presentation ba"]
    attempt_ab: Annotated[int, "which attempt the verdict of presentation ab answers"]
    attempt_ba: Annotated[int, "which attempt the verdict of presentation ba answers"]
    settled_by: Annotated[str, "the model that judged, or the models of the jury"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EloRow:
    """An entrant's Elo rating for one K-factor, over many orderings of the decisive matches."""

    dimension: Annotated[str, "the quality that was judged"]
    k_factor: Annotated[float, "the most one match can change a rating by"]
    is_primary: Annotated[bool, "whether this is the configured K-factor"]
    rank: Annotated[
        int | None, "1 is best, for this K-factor; absent: see the note", Display("rank")
    ] = None
    entrant_id: Annotated[str, "the entrant that is rated", Display("model")]
    mean: Annotated[float | None, "mean over orderings, in Elo points; absent: see the note"] = None
    sem: Annotated[float | None, "standard error of that mean: order noise only"] = None
    order_low: Annotated[float | None, "lower end of the spread over orderings"] = None
    order_high: Annotated[float | None, "upper end of the spread over orderings"] = None
    n_decisive_matches: Annotated[int, "decisive matches on the dimension"]
    n_entrant_matches: Annotated[
        int, "decisive matches of this entrant", Display("decisive matches")
    ]
    note: Annotated[str | None, "why the rating is absent", Display("note")] = None

    @property
    def mean_and_error(self) -> Annotated[str, Display("mean ± SEM")]:
        """The mean over orderings, with its standard error where there is one."""
        if self.mean is None:
            return "not rated"
        return f"{self.mean:.1f}" + (f" ± {self.sem:.1f}" if self.sem is not None else "")


_MOST_LETTERS = 3
"""More letters than these tell less than the places beside them."""

Rank = Annotated[int | None, "1 is best; equal ratings share the better", Display("rank")]
BestRank = Annotated[int | None, "best possible rank: 1 + entrants shown to be above it"]
WorstRank = Annotated[int | None, "worst possible rank: all but those shown below it"]
Letters = Annotated[
    str | None,
    "letters; of two that share one neither is better",
    Display("group", lambda letters: letters or None),
]


class Placed:
    """Whatever has a range of possible ranks."""

    __slots__ = ()
    rank_best: BestRank
    rank_worst: WorstRank
    group: Letters

    @property
    def places(self) -> Annotated[str | None, Display("places")]:
        """The range of its possible ranks: `2–5`."""
        best, worst = self.rank_best, self.rank_worst
        return None if best is None else f"{best}" if best == worst else f"{best}–{worst}"

    @property
    def places_and_group(self) -> Annotated[str | None, Display("places and group")]:
        """The range of its possible ranks, and its letters while they are few."""
        letters = self.group if self.group and len(self.group.split()) <= _MOST_LETTERS else None
        return " ".join(filter(None, (self.places, letters))) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingRow(Placed):
    """An entrant's rating by one method, on one basis, over one stratum of the prompts."""

    dimension: Annotated[str, "the quality that was judged"]
    method: Annotated[str, "how it is rated: a row of `rating_methods`"]
    basis: Annotated[str, "whose battles, or which of them: all is every judged pair"] = "all"
    stratum: Annotated[str, "the prompts it is over: all, or `source: …`"] = "all"
    entrant_id: Annotated[
        str, "the entrant, or the feature or judge that the number is of", Display("entrant")
    ]
    rating: Annotated[
        float | None,
        "on the Elo scale, or what the method measures",
        Display("rating", format_rating),
    ] = None
    standard_error: Annotated[float | None, "of the rating, prompts as clusters"] = None
    low: Annotated[float | None, "lower end of its interval; absent without a bound"] = None
    high: Annotated[float | None, "upper end of its interval; absent without a bound"] = None
    rank: Rank = None
    rank_best: BestRank = None
    rank_worst: WorstRank = None
    shown_above: Annotated[
        tuple[str, ...], "entrants that it is better than; elo: below it beyond order noise"
    ] = ()
    group: Letters = None
    n: Annotated[
        int, "prompts it rests on; elo and arena: its matches; win_share: its pairs", Display("n")
    ] = 0
    note: Annotated[
        str | None, "why a number is absent, or what to know of it", Display("note")
    ] = None

    @property
    def estimate(self) -> Estimate:
        """The rating with its interval."""
        return Estimate(self.rating, self.low, self.high, self.n, self.note)

    @property
    def share(self) -> Annotated[float | None, Display("win share", format_share)]:
        """The rating of a method that measures a share."""
        return self.rating

    @property
    def interval(self) -> Annotated[str, Display("interval")]:
        """Both ends of its interval, or the one that is known."""
        return format_interval(self.low, self.high, absent=ABSENT)

    @property
    def model(self) -> Annotated[str, Display("model")]:
        """The entrant, as battles call it."""
        return self.entrant_id

    @property
    def rating_and_interval(self) -> Annotated[str, Display("rating (interval)")]:
        """The rating with its interval."""
        if self.rating is None:
            return "not rated"
        ends = format_interval(self.low, self.high, absent="no interval")
        return f"{format_rating(self.rating)} ({ends})"

    @property
    def share_and_rank(self) -> Annotated[str | None, Display("win share (rank)")]:
        """The rating of a method that measures a share, with its rank."""
        return None if self.rating is None else f"{format_share(self.rating)} ({self.rank})"


@dataclass(frozen=True, slots=True, kw_only=True)
class WinRateRow:
    """Wins and ties between two entrants."""

    dimension: Annotated[str, "the quality that was judged"]
    entrant_a: Annotated[str, "first of the two, alphabetically"]
    entrant_b: Annotated[str, "second of the two"]
    wins_a: Annotated[int, "pairs entrant_a won"]
    wins_b: Annotated[int, "pairs entrant_b won"]
    ties: Annotated[int, "both presentations said tie"]
    inconsistent: Annotated[int, "the presentations disagreed: counts as a tie here"]
    same_text: Annotated[int, "identical responses: the judge was not asked"]
    unjudged: Annotated[int, "a reply is missing or unreadable: counts as nothing"]
    judged: Annotated[int, "pairs that were asked, with two readable replies"]
    win_rate_a: Annotated[float | None, "share won; no winner: half; without unjudged ones"] = None
    claim: Annotated[
        str | None, "a_better, b_better, equivalent or undecided; absent: one has no rank"
    ] = None
    difference: Annotated[float | None, "Bradley-Terry rating of entrant_a less entrant_b's"] = None
    difference_low: Annotated[float | None, "lower end of its interval, all pairs together"] = None
    difference_high: Annotated[float | None, "upper end of that interval"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardRow(Placed):
    """An entrant's place on a dimension, the rating it rests on, and what is read beside it."""

    dimension: Annotated[str, "the quality that was judged"]
    rank: Rank
    entrant_id: Annotated[str, "the entrant", Display("entrant")]
    rating: Annotated[
        float | None,
        "Bradley-Terry, ties as halves, in Elo points",
        Display("rating", lambda points: "not rated" if points is None else format_rating(points)),
    ] = None
    low: Annotated[float | None, "lower end of its interval, prompts resampled"] = None
    high: Annotated[float | None, "upper end of its interval"] = None
    bar_low: Annotated[
        float | None, "lower end of its comparison bar; bars overlap where neither is better"
    ] = None
    bar_high: Annotated[float | None, "upper end of that bar"] = None
    rank_best: BestRank = None
    rank_worst: WorstRank = None
    shown_above: Annotated[tuple[str, ...], "entrants that it is better than"] = ()
    group: Letters = None
    win_rate: Annotated[
        float | None,
        "share of its settled pairs that it won, ties as halves",
        Display("win rate", format_share),
    ] = None
    n: Annotated[int, "its settled pairs", Display("pairs")] = 0
    elo: Annotated[float | None, "mean Elo rating over orderings of the decisive pairs"] = None
    elo_sem: Annotated[float | None, "standard error of that mean: order noise only"] = None
    note: Annotated[str | None, "why the rating is absent"] = None
    same_answers_as: Annotated[tuple[str, ...], "entrants that wrote the same to every prompt"] = ()
    lead_rests_on: Annotated[
        tuple[str, ...], "of the first: few prompts; without all of them it is not first alone"
    ] = ()
    lead_rests_on_at_least: Annotated[
        int | None, "of the first: no fewer prompts than these are enough for that"
    ] = None
    judge_model: Annotated[str | None, "the model that judged"] = None
    judge: Annotated[str | None, "what kind of judge that is"] = None
    stops: Annotated[str | None, "goal at which a pair stops; absent: every pair is judged"] = None

    @property
    def judge_title(self) -> str:
        """What kind of judge that is, and whether it was asked about every pair."""
        stops = "" if self.stops is None else f"; pairs stop early ({self.stops})"
        return f"{self.judge}{stops}"

    @property
    def interval(self) -> Annotated[str | None, Display("interval")]:
        """Both ends of its interval, or the one that is bounded."""
        if self.rating is None:
            return None
        return format_interval(self.low, self.high, absent="unbounded")


@dataclass(frozen=True, slots=True, kw_only=True)
class BattleRow:
    """A settled pair as other tools know it."""

    model_a: Annotated[str, "the first model"]
    model_b: Annotated[str, "the second model"]
    winner: Annotated[str, "model_a, model_b, tie, or tie (bothbad) of people"]
    source: Annotated[str, "who decided: llm-judge or human"]
    question_id: Annotated[str | None, "the prompt"] = None
    sample: Annotated[int, "which of the answers to the prompt, from 1"] = 1
    judge_model: Annotated[str | None, "the model that judged"] = None
    dimension: Annotated[str | None, "the quality that was judged"] = None
    inconsistent: Annotated[bool, "a tie that stands for two replies that disagreed"]
    weight: Annotated[float, "how many prompts it stands for, or how much it counts"]
    pref: Annotated[float | None, "what model_b got of the win, where the winner says less"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRow:
    """How many of an entrant's pairs were answered, judged and consistent."""

    dimension: Annotated[str, "the quality being judged", Display("dimension")]
    entrant_id: Annotated[str, "the entrant", Display("entrant")]
    prompts_selected: Annotated[int, "prompts the entrant should have answered"]
    responses: Annotated[int, "prompts it answered"]
    empty_responses: Annotated[int, "answers without any text", Display("empty")]
    truncated_responses: Annotated[int, "answers that the token cap ended", Display("cut off")]
    thoughts_cut: Annotated[
        int,
        "those of them that it ended before a word, in a thought",
        Display("cut off in thought"),
    ] = 0
    pairs_planned: Annotated[int, "pairs it should take part in", Display("pairs planned")]
    pairs_unanswered: Annotated[
        int, "pairs not asked about: an entrant did not answer", Display("unanswered")
    ]
    pairs_same_text: Annotated[
        int, "identical responses: the judge is not asked", Display("same text")
    ]
    pairs_judged: Annotated[
        int, "pairs asked about and settled by readable replies", Display("judged")
    ]
    pairs_inconsistent: Annotated[int, "judged pairs whose replies disagree"]
    pairs_clean: Annotated[int, "pairs judged consistently, or identical", Display("clean")]
    coverage: Annotated[
        float | None,
        "judged and identical pairs, divided by planned ones",
        Display("coverage", format_share),
    ] = None
    score_present: Annotated[
        float | None,
        "win share over the same pairs; ties are a half",
        Display("mean", format_share),
    ] = None
    score_clean: Annotated[
        float | None, "win share over clean pairs", Display("clean mean", format_share)
    ] = None
    score_normalised: Annotated[
        float | None,
        "points by planned pairs: missing adds none",
        Display("normalised", format_share),
    ] = None
    replies_asked: Annotated[int, "presentations put to the judges"]
    replies_refused: Annotated[int, "presentations the judge declined", Display("refused")]
    replies_unreadable: Annotated[
        int, "presentations without a readable verdict", Display("unreadable")
    ]
    replies_permanent: Annotated[int, "presentations that can never succeed", Display("impossible")]
    replies_pending: Annotated[int, "presentations without a reply yet", Display("pending")]
    infra_remaining: Annotated[
        int, "presentations that failed in the infrastructure", Display("infra left")
    ]
    infra_rejudged: Annotated[
        int, "presentations that failed there at first and were judged", Display("infra re-judged")
    ]

    @property
    def answered(self) -> Annotated[str, Display("answered")]:
        """The prompts it answered, of those it should have."""
        return f"{self.responses} / {self.prompts_selected}"

    @property
    def pairs_asked(self) -> Annotated[int, Display("asked")]:
        """Pairs that were put to the judge."""
        return self.pairs_planned - self.pairs_unanswered - self.pairs_same_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFindingRow:
    """A finding or a measurement about a prompt or a stratum."""

    dimension: Annotated[str, "the quality being judged", Display("dimension")]
    kind: Annotated[str, "the kind of finding; docs/audits.md says when"]
    is_finding: Annotated[bool, "true: look at it; false: a measurement alone"]
    prompt_id: Annotated[
        str | None, "the prompt; absent where it is about a stratum", Display("prompt")
    ] = None
    stratum: Annotated[str, "the prompt's stratum", Display("stratum")]
    entrants: Annotated[
        tuple[str, ...], "the entrants concerned; empty: all", Display("moves", ", ".join)
    ] = ()
    value: Annotated[
        float | None,
        "a share, a score, Elo points or a ratio, by kind",
        Display("Elo points", "{:+.1f}".format),
    ] = None
    count: Annotated[int, "what was counted"]
    total: Annotated[int, "out of how many"]
    sentence: Annotated[str, "the finding in words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPageRow:
    """A document of the report."""

    format: Annotated[str, "markdown, html, or the name of a further page"]
    content: Annotated[str, "the whole document"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRow:
    """One number about the judges of a dimension, or about one of them."""

    dimension: Annotated[str, "the quality that was judged"]
    measure: Annotated[str, "what was measured; docs/methodology.md says how"]
    subject: Annotated[str | None, "the judge, entrant, person or run that it is about"] = None
    other: Annotated[str | None, "the other one, where it is about two"] = None
    stratum: Annotated[str | None, "the prompts' source, or another judge's mode; absent: all"] = (
        None
    )
    prompt_id: Annotated[str | None, "the prompt, where it is about one pair"] = None
    unit: Annotated[str, "share, kappa, points (Elo), p (a p-value), odds, ratio or count"]
    value: Annotated[float | None, "the number; absent where the data do not determine it"] = None
    low: Annotated[float | None, "lower end of its interval"] = None
    high: Annotated[float | None, "upper end of its interval"] = None
    n: Annotated[
        int, "replies, pairs, labels, controls or triples it was counted over", Display("n")
    ]
    threshold: Annotated[float | None, "the limit of its light; absent: no check"] = None
    state: Annotated[
        str | None, "green, amber, red, not measured or no threshold; absent: no light"
    ] = None
    note: Annotated[str | None, "the counts behind it, or why it is absent", Display("note")] = None
    remedy: Annotated[str | None, "what would measure it; absent: it is there, or nothing"] = None

    @classmethod
    def of(cls, estimate: Estimate, **about: Any) -> Self:
        """Return a number as a row; the other columns say what it is about."""
        numbers = {each.name: getattr(estimate, each.name) for each in fields(Estimate)}
        return cls(**about, **numbers)

    @property
    def about(self) -> tuple[str | None, str | None, str | None]:
        """The one or the two that it is about, and where."""
        return self.subject, self.other, self.stratum

    @property
    def share(self) -> Annotated[float | None, Display("share", format_share)]:
        """The number, where it is a share."""
        return self.value

    @property
    def estimate(self) -> Annotated[Estimate, Display("number (interval)", format_estimate)]:
        """The number with its interval."""
        return Estimate(self.value, self.low, self.high, self.n, self.note, self.remedy)
