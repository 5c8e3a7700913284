"""The provenance of a result: input hashes, what was left out, costs, and what made it."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

import pandas as pd

from tournament_assets.foundation.extensions import installed_extensions
from tournament_assets.foundation.fingerprints import combine
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.judging.batch_service import Channel, TokenUsage
from tournament_assets.judging.costs.prices import (
    judge_prices,
    load_newest_prices,
    newest_prices_hash,
)
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.storage.tables import (
    AnyTable,
    PairKey,
    content_version,
    pair_key,
    rows_of,
)
from tournament_assets.tournament.asset_rows import JudgeReplyRow, ResponseRow
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.prompts import Prompt, answer_key

if TYPE_CHECKING:
    from tournament_assets.ledger.spending import Waste


@dataclass(frozen=True, slots=True)
class BilledReply:
    """The columns of table `judge_replies` that its bill and summary need."""

    prompt_id: str
    sample: int
    entrant_a: str
    entrant_b: str
    request_key: str
    attempt: int
    judge_model: str
    rubric_version: str
    rubric_hash: str
    result_type: str
    channel: str | None
    input_tokens: int | None
    output_tokens: int | None
    cache_creation_input_tokens: int | None
    cache_read_input_tokens: int | None


class Bill:
    """The bill of replies, whenever they were paid; shared requests count once.

    Attributes:
        usage: The tokens of all of them.
    """

    def __init__(self) -> None:
        self.usage = TokenUsage()
        self._seen: set[tuple[str, int]] = set()
        self._by_price: dict[tuple[str, Channel], TokenUsage] = {}
        self._cache_hits = 0
        self._cache_writes = 0

    def add(self, reply: JudgeReplyRow | BilledReply) -> None:
        """Add a row of the table `judge_replies`, if it was billed and is not a repetition."""
        if reply.channel is None or reply.input_tokens is None:
            return
        name = (reply.request_key, reply.attempt)
        if name in self._seen:
            return
        self._seen.add(name)
        usage = TokenUsage(
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens or 0,
            cache_creation_input_tokens=reply.cache_creation_input_tokens or 0,
            cache_read_input_tokens=reply.cache_read_input_tokens or 0,
        )
        self.usage += usage
        price = (reply.judge_model, cast("Channel", reply.channel))
        self._by_price[price] = self._by_price.get(price, TokenUsage()) + usage
        self._cache_hits += usage.cache_read_input_tokens > 0
        self._cache_writes += usage.cache_creation_input_tokens > 0

    @property
    def cache_hit_rate(self) -> float:
        """The share of requests that read the prompt cache among those that used it."""
        used = self._cache_hits + self._cache_writes
        return self._cache_hits / used if used else 0.0

    def cost_usd(self, config: TournamentConfig) -> float | None:
        """Return the dollars; None where a price is not known, 0 for the loopback judge."""
        if all(each.row.is_free for each in config.judges):
            return 0.0
        prices = judge_prices(config, *(model for model, _ in self._by_price))
        total = 0.0
        for (model, channel), usage in self._by_price.items():
            dollars = prices.cost_usd(model, usage, channel=channel)
            if dollars is None:
                return None
            total += dollars
        return total

    def metadata(self, config: TournamentConfig) -> JsonObject:
        """Return the bill as metadata for the UI."""
        usage, cost = self.usage, self.cost_usd(config)
        written, cached = usage.cache_creation_input_tokens, usage.cache_read_input_tokens
        read = usage.input_tokens + written + cached
        return {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_write_tokens": written,
            "cache_read_tokens": cached,
            "cache_read_share": cached / read if read else 0.0,
            "cache_hit_rate": self.cache_hit_rate,
            **({"cost_usd": round(cost, 4)} if cost is not None else {}),
        }


def bill_of(replies: Iterable[JudgeReplyRow]) -> Bill:
    """Return the bill of rows of the table `judge_replies`."""
    bill = Bill()
    for reply in replies:
        bill.add(reply)
    return bill


_DISTRIBUTION = "tournament-assets"
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
_GIT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Commit:
    """The state of a folder under version control.

    Attributes:
        hash: The last commit that changed something in the folder.
        has_changes: Whether files under version control were edited since.
    """

    hash: str
    has_changes: bool

    def __str__(self) -> str:
        return f"{self.hash[:12]}{' with changes' if self.has_changes else ''}"


@dataclass(frozen=True, slots=True)
class Versions:
    """What a result was made with.

    Attributes:
        program: Version of this program; None where it is not installed as a distribution.
        program_commit: The commit of the program's own folder; None outside of a checkout.
        project_commit: The commit of the project's folder; None if it is not under version control.
        python: Implementation and version of Python.
        libraries: Versions of everything that the program requires, by name.
        extensions: Versions of the distributions that add rows, by name.
    """

    program: str | None
    program_commit: Commit | None
    project_commit: Commit | None
    python: str
    libraries: Mapping[str, str]
    extensions: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        program = f"{_DISTRIBUTION} {self.program or 'of an unknown version'}"
        if self.program_commit is not None:
            program += f" (commit {self.program_commit})"
        others = {**self.extensions, **self.libraries}.items()
        return ", ".join([program, self.python, *(f"{name} {version}" for name, version in others)])


def read_versions(project: Path) -> Versions:
    """Return what is running now."""
    return Versions(
        program=_version_of(_DISTRIBUTION),
        program_commit=find_commit(Path(__file__).parents[1]),
        project_commit=find_commit(project),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        libraries=_libraries(),
        extensions={row.distribution: row.version for row in installed_extensions()},
    )


def find_commit(folder: Path) -> Commit | None:
    """Return the commit of a folder; None without git, or where nothing in it was committed."""
    commit = _git(folder, "log", "-1", "--format=%H", "--", ".")
    if not commit:
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return Commit(commit, has_changes=bool(changes))


def _git(folder: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    command = [program, "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(  # noqa: S603 (a fixed program, and no shell)
            command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()


@cache
def _libraries() -> Mapping[str, str]:
    try:
        required = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return {}
    names = {
        match.group().lower()
        for each in required
        if "extra ==" not in each and (match := _REQUIREMENT.match(each))
    }
    versions = {name: _version_of(name) for name in sorted(names)}
    return {name: version for name, version in versions.items() if version is not None}


def _version_of(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


Recorded = Mapping[str, object]
"""A materialisation's metadata."""
Records = Callable[[str, str | None], Recorded | None]
"""Returns what is recorded of an asset's partition, newest first; None if there is nothing."""

Frames = Mapping[str, "pd.DataFrame"]
LargeTables = Mapping[str, AnyTable]
"""Tables of several partitions, by entrant or dimension, in config order."""


@dataclass(frozen=True, slots=True, eq=False)
class ReplySummary:
    """A summary of one dimension's table `judge_replies`, from a single pass over it.

    Attributes:
        pairs: Number of pairs; each has two or more rows.
        pending: Presentations without a reply yet.
        identical: Presentations that were not asked about, because both responses are the same.
        requests: Different requests that got a reply.
        request_hash: Hash of all its requests.
        rubric: The `version` and `hash` of what it was judged by; None if it has no row.
        judge_models: Who judged.
        bill: What it cost.
    """

    pairs: int
    pending: int
    identical: int
    requests: int
    request_hash: str
    rubric: Mapping[str, str] | None
    judge_models: frozenset[str]
    bill: Bill


def summarise_replies(replies: AnyTable) -> ReplySummary:
    """Read the table `judge_replies` of one dimension once, without what the judge wrote."""
    bill = Bill()
    results: Counter[str] = Counter()
    pairs: set[PairKey] = set()
    # By request key: whether any reply to it is there.
    is_answered: dict[str, bool] = {}
    judge_models: set[str] = set()
    rubric = None
    for row in rows_of(BilledReply, replies, shares_texts=True):
        rubric = rubric or {"version": row.rubric_version, "hash": row.rubric_hash}
        bill.add(row)
        results[row.result_type] += 1
        pairs.add(pair_key(row))
        key = row.request_key
        is_answered[key] = is_answered.get(key, False) or row.channel is not None
        judge_models.add(row.judge_model)
    return ReplySummary(
        pairs=len(pairs),
        pending=results["pending"],
        identical=results["identical"],
        requests=sum(is_answered.values()),
        request_hash=combine(sorted(is_answered)),
        rubric=rubric,
        judge_models=frozenset(judge_models),
        bill=bill,
    )


def rerun_command(plan: TournamentPlan, mode: Mode) -> str:
    """Return the command that reproduces a mode's results."""
    return f"tournament run --config {plan.config_path.as_posix()} --mode {mode}"


def pairs_left_out(
    plan: TournamentPlan,
    *,
    selected: pd.DataFrame,
    responses: Frames,
    replies: Mapping[str, ReplySummary],
) -> dict[str, int]:
    """Count the pairs that a run with `limit_pairs` did not judge, by dimension."""
    answered = set.intersection(
        *(set(map(answer_key, rows_of(ResponseRow, frame))) for frame in responses.values())
    )
    prompts = [row for row in rows_of(Prompt, selected) if answer_key(row) in answered]
    pairs_per_prompt = comb(len(plan.config.entrant_ids), 2)
    left_out: dict[str, int] = {}
    for dimension, summary in replies.items():
        needs_gold_answer = plan.config.dimensions[dimension].needs_gold_answer
        eligible = sum(
            not needs_gold_answer or prompt.gold_answer is not None for prompt in prompts
        )
        left_out[dimension] = eligible * pairs_per_prompt - summary.pairs
    return left_out


class JudgingCost(TypedDict):
    """Requests, tokens and dollars of what was judged on a dimension."""

    requests: int
    presentations_identical: int
    cache_hit_rate: float
    input_tokens: int
    output_tokens: int
    cache_write_tokens: int
    cache_read_tokens: int
    cost_usd: float | None


def judging_costs(
    plan: TournamentPlan, replies: Mapping[str, ReplySummary]
) -> dict[str, JudgingCost]:
    """Return what was judged and what it cost, by dimension."""
    costs: dict[str, JudgingCost] = {}
    for dimension, summary in replies.items():
        usage, cost = summary.bill.usage, summary.bill.cost_usd(plan.config)
        costs[dimension] = {
            "requests": summary.requests,
            "presentations_identical": summary.identical,
            "cache_hit_rate": round(summary.bill.cache_hit_rate, 6),
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_write_tokens": usage.cache_creation_input_tokens,
            "cache_read_tokens": usage.cache_read_input_tokens,
            "cost_usd": None if cost is None else round(cost, 6),
        }
    return costs


def judging_waste(waste: Waste) -> dict[str, int]:
    """Return what was paid for without use, or may have been."""
    return {
        "replies_paid_twice": waste.replies_paid_twice,
        **{f"{name}_paid_twice": count for name, count in asdict(waste.usage).items()},
        "requests_never_confirmed": waste.requests_never_confirmed,
        "requests_lost": waste.requests_lost,
        "requests_unparsable": waste.requests_unparsable,
    }


def cost_lines(costs: Mapping[str, JudgingCost]) -> list[tuple[str, str]]:
    """Return the costs as people read them."""
    lines = []
    for dimension, cost in costs.items():
        dollars = cost["cost_usd"]
        price = "no price known for this model" if dollars is None else f"${dollars:.2f}"
        read = cost["input_tokens"] + cost["cache_write_tokens"] + cost["cache_read_tokens"]
        lines.append(
            (
                f"judging {dimension}",
                f"{price}: {cost['requests']:,} requests, {read:,} tokens read "
                f"({cost['cache_read_tokens']:,} of them from the cache), "
                f"{cost['output_tokens']:,} written",
            )
        )
    return lines


@dataclass(frozen=True, slots=True)
class InputHashes:
    """The hash of everything that decides a result, and of the prices."""

    config: str
    selected_prompts: str
    rubrics: dict[str, Mapping[str, str]]
    responses: dict[str, str]
    judge_requests: dict[str, str]
    entrants: dict[str, dict[str, str]]
    price_list: dict[str, str]


def input_hashes(
    plan: TournamentPlan,
    *,
    selected: pd.DataFrame,
    responses: Frames,
    replies: Mapping[str, ReplySummary],
    answered: Mapping[str, Recorded],
) -> InputHashes:
    """Return the hash of everything that decides a result, and of the prices.

    Args:
        responses: Table `entrant_responses` of each entrant.
        replies: What is recorded of table `judge_replies`, by dimension.
        answered: What is recorded of each entrant's responses.
    """
    return InputHashes(
        config=plan.config.fingerprint,
        selected_prompts=content_version(Prompt, selected),
        rubrics={
            dimension: summary.rubric
            for dimension, summary in replies.items()
            if summary.rubric is not None
        },
        responses={
            entrant: content_version(ResponseRow, frame) for entrant, frame in responses.items()
        },
        judge_requests={dimension: summary.request_hash for dimension, summary in replies.items()},
        entrants={
            entrant: {
                name: str(recorded[key])
                for name, key in (("hash", "entrant_hash"), ("weights", "weights_hash"))
                if key in recorded
            }
            for entrant, recorded in answered.items()
        },
        price_list={"date": load_newest_prices().date, "hash": newest_prices_hash()},
    )


def version_values(versions: Versions) -> JsonObject:
    """Return versions and commit as the manifest has them."""
    commit = versions.program_commit
    return {
        "program": versions.program,
        "commit": None if commit is None else asdict(commit),
        "python": versions.python,
        "libraries": dict(versions.libraries),
        **({"extensions": dict(versions.extensions)} if versions.extensions else {}),
    }


def provenance_lines(
    plan: TournamentPlan, mode: Mode, inputs: InputHashes, versions: Versions
) -> list[tuple[str, str]]:
    """Return the hashes, thresholds and seeds as people read them."""
    config = plan.config
    thresholds = config.checks.model_dump(exclude_none=True)
    prices = inputs.price_list
    return [
        ("config", f"{plan.config_path.as_posix()} {inputs.config}"),
        ("selected prompts", inputs.selected_prompts),
        *(
            (f"rubric {dimension}", f"version {rubric['version']} {rubric['hash']}")
            for dimension, rubric in inputs.rubrics.items()
        ),
        *((f"responses {entrant}", version) for entrant, version in inputs.responses.items()),
        *(
            (f"judge requests {dimension}", version)
            for dimension, version in inputs.judge_requests.items()
        ),
        *(
            (f"weights {entrant}", files["weights"])
            for entrant, files in inputs.entrants.items()
            if "weights" in files
        ),
        ("thresholds", ", ".join(f"{name} {value}" for name, value in thresholds.items())),
        ("price list", f"{prices['date']} {prices['hash']}"),
        *(
            [("project", f"commit {versions.project_commit}")]
            if versions.project_commit is not None
            else []
        ),
        ("draw seed", str(config.mode(mode).draw_seed)),
        ("shuffle seed", str(config.ratings.shuffle_seed)),
        ("bootstrap seed", str(config.ratings.bootstrap_seed)),
    ]


def name_models(models: Iterable[str]) -> str:
    """Name the model that judged; more than one only after a run that asked another one."""
    return ", ".join(sorted(set(models)))
