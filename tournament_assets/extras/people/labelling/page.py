"""What raters are shown: a page to serve, or one file to send.

It contains no entrant's name and no verdict. A salted hash names each pair and gives its place, so
that neither says which pair it is; a vote names the response that was shown first by the hash of
its text.
"""

import re
from collections.abc import (
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

from tournament_assets.extras.people.label_records import (
    LabelRecords,
    LabelSample,
    LabelVote,
    compared,
    last_votes,
    pair_identity,
    shown_pair_id,
)
from tournament_assets.extras.people.votes import (
    said_as_shown,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import fingerprint, fingerprint_text
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.project_files import load_rubric
from tournament_assets.reports.battle_pages import script_json
from tournament_assets.reports.rendering import render_page
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.judges import Rubric
from tournament_assets.tournament.prompts import CURATED_SOURCE


@dataclass(frozen=True)
class LabelDesk:
    """A sample with everything that raters are shown of it.

    Attributes:
        sample: The latest draw.
        texts: The pairs whose texts have not changed since the draw, by `pair_id`.
        rubrics: What raters can read, by dimension.
        salt: The sample's secret.
        shows_gold_answer: Whether they see the gold answer, if there is one.
    """

    sample: LabelSample
    texts: Mapping[str, PairToJudge]
    rubrics: Mapping[str, Rubric]
    salt: str = field(repr=False)
    shows_gold_answer: bool = False
    shows_expected_behavior: bool = False

    @classmethod
    def of(
        cls, plan: TournamentPlan, sample: LabelSample, pairs: Iterable[PairToJudge], *, salt: str
    ) -> "LabelDesk":
        """Match a sample with the current texts."""
        drawn = {each.pair_id for each in sample.pairs}
        texts = {}
        for pair in pairs:
            names = pair_identity(pair, sample.tournament_id, sample.mode, sample.dimension)
            if names["pair_id"] in drawn:
                texts[names["pair_id"]] = pair
        config, dimension = plan.config, sample.dimension
        rules = None if dimension is None else config.dimensions[dimension]
        return cls(
            sample=sample,
            texts=texts,
            salt=salt,
            rubrics={
                name: load_rubric(config, plan.project, name)
                for name in (config.dimension_names if dimension is None else (dimension,))
            },
            shows_gold_answer=rules is not None and rules.shows_gold_answer,
            shows_expected_behavior=rules is not None and rules.shows_expected_behavior,
        )

    @property
    def rubric_hash(self) -> str:
        """SHA-256 of the instructions that raters can read."""
        return fingerprint({name: rubric.text for name, rubric in self.rubrics.items()})

    def shown_id(self, pair_id: str) -> str:
        """Return the name of a pair on a page."""
        return shown_pair_id(pair_id, self.salt)

    def page_values(self, rater: str, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return everything a rater's page shows, as JSON values without entrants' names.

        Args:
            rater: Decides the sides.
            state: What `rater_state` returned.
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
                shown_id: self._shown(shown_id, pair, rater)
                for shown_id, pair in sorted(
                    ((self.shown_id(name), pair) for name, pair in self.texts.items()),
                    key=itemgetter(0),
                )
            },
            **state,
        }

    def _shown(self, shown_id: str, pair: PairToJudge, rater: str) -> dict[str, Any]:
        responses = [pair.response_a, pair.response_b]
        if int(fingerprint(["side", self.sample.seed, shown_id, compared(rater)])[:8], 16) % 2:
            responses.reverse()
        behavior = pair.expected_behavior if self.shows_expected_behavior else None
        if pair.source != CURATED_SOURCE and pair.gold_answer is not None:
            behavior = None  # as for the judge
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
        """Return what a rater has done and still has to do.

        All label in one order, which is random, so that whoever stops leaves a random sample. Pairs
        that are not shared are dealt to the raters in turn; once one is labelled, no other rater is
        asked about it.

        Args:
            votes: All votes on the sample, in the order they arrived.
            raters: Everybody known to take part.

        Returns:
            `order`: the rater's pairs still to label, by their names on the page; `others`: other
            raters' pairs that nobody has labelled; `done`: pairs with the rater's votes in the
            page's words, in the order they were given; `seconds`: the median time of a vote, or
            None.
        """
        last = {
            (pair_id, compared(name)): vote for (pair_id, name), vote in last_votes(votes).items()
        }
        rater = compared(rater)
        mine = {pair_id: vote for (pair_id, name), vote in last.items() if name == rater}
        taken = {pair_id for pair_id, name in last if name != rater}
        dealt = sorted({*map(compared, raters), rater, *(name for _, name in last)})
        order: list[str] = []
        others: list[str] = []
        n_single = 0
        for shown_id, pair in sorted(
            ((self.shown_id(pair.pair_id), pair) for pair in self.sample.pairs), key=itemgetter(0)
        ):
            is_mine = pair.shared or dealt[n_single % len(dealt)] == rater
            n_single += not pair.shared
            if pair.pair_id in mine or pair.pair_id not in self.texts:
                continue
            if pair.shared or pair.pair_id not in taken:
                (order if is_mine else others).append(shown_id)
        seconds = [vote.seconds for vote in mine.values() if vote.seconds is not None]
        done = sorted(mine.values(), key=lambda vote: vote.given_at)
        return {
            "order": order,
            "others": others,
            "done": [[self.shown_id(vote.pair_id), said_as_shown(vote)] for vote in done],
            "seconds": median(seconds) if seconds else None,
        }


def spoken(dimension: str) -> str:
    """Return a dimension's name as a person would say it."""
    return dimension.replace("_", " ")


def _without_version(text: str) -> str:
    """Leave out the lines of a rubric that only programs read."""
    return re.sub(r"\A(?:#[^\n]*\n+)+", "", text)


def write_label_page(
    path: Path, desk: LabelDesk, rater: str, *, ledger: LabelRecords, raters: Sequence[str]
) -> int:
    """Write a page that works from disk and saves its votes as a file.

    Returns:
        How many pairs the rater is asked about.
    """
    state = desk.rater_state(rater, ledger.iterate_votes(desk.sample.sample_id), raters)
    state = {**state, "others": []}
    needed = {*state["order"], *(pair_id for pair_id, _ in state["done"])}
    values = desk.page_values(rater, state)
    values["pairs"] = {name: pair for name, pair in values["pairs"].items() if name in needed}
    values["rubric"] = desk.rubric_hash
    try:
        write_bytes_atomically(path, label_page(values).encode("utf-8", errors="backslashreplace"))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from error
    return len(state["order"])


def label_page(values: Mapping[str, Any] | None) -> str:
    """Return the page with the values it shows, or None for one that asks a server for them."""
    connects = values is None
    page, name = "people/templates/label.html.jinja", "people/templates/label"
    return render_page(page, name, work=script_json(values), connects=connects)
