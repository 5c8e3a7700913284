"""What the entrants of a dimension are rated by, and what a method of rating is."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings.bradley_terry import ResampledWins
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.standings import Standings, stand_entrants
from tournament_assets.tournament.asset_rows import RatingRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.prompts import AnswerKey


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """The data from which the entrants of a dimension are rated, and how.

    Attributes:
        matches: Who met whom; a tie, or a preference, is a share of a win.
        outcomes: The same for Davidson, which takes only wins, losses and ties, if different from
            the matches.
        tables: The same with resamples of the prompts, if they are not to be drawn.
        samples: The same with one match per sample of a prompt, if different from the matches.
        responses: Every response, by entrant and what it answers.
        tells_apart: Whether Bradley-Terry reports who is better than whom.
        decided: Who was decided to be above whom while judging, where pairs stopped early.
    """

    matches: Matches
    settings: RatingSettings
    outcomes: Matches | None = None
    tables: ResampledWins | None = None
    samples: Matches | None = None
    traces: EloTraces | None = None
    responses: Mapping[tuple[str, AnswerKey], str] | None = None
    tells_apart: bool = False
    decided: Collection[tuple[str, str]] | None = None

    @cached_property
    def standings(self) -> Standings:
        """The entrants rated, ordered and compared as the settings say; see `stand_entrants`."""
        return stand_entrants(
            self.tables or ResampledWins.of(self.matches, self.settings.resampling),
            equivalent_within=self.settings.equivalent_within,
            initial_rating=self.settings.initial_rating,
            decided=self.decided,
        )

    @property
    def n_prompts(self) -> int:
        """How many prompts were judged."""
        return len(self.matches.prompts) if self.tables is None else self.tables.n_prompts

    @property
    def by_sample(self) -> Matches:
        """One match for every sample of a prompt."""
        return self.matches if self.samples is None else self.samples


@dataclass(frozen=True, slots=True)
class RatingMethod:
    """One way to rate.

    Attributes:
        meaning: What its number is.
        rate: Returns its rows, given the evidence, or None where that lacks what it needs. None if
            a separate asset, or the method beside which they stand, makes them.
        counts: What it does with pairs without a winner, to follow its title. Methods that say so
            need nothing but the matches, and stand side by side.
        needs: What it needs beside the matches, for messages.
        asset: The asset whose table holds everyone's ratings by it, over all prompts.
        noise: What a difference must exceed to be one, so that its rows say who is above whom;
            elsewhere all differences count.
        interval: The method that gives the interval beside its ratings, if it is another one.
        beside: The method whose fit gives it as well; its rows rate no entrants.
        from_counts: Whether it needs only how often two entrants won, lost and tied, with resamples
            of that, and not each match.
    """

    name: str
    title: str
    meaning: str
    rate: Callable[[Evidence], Iterable[RatingRow] | None] | None = None
    counts: str = ""
    needs: str = ""
    asset: str = "ratings"
    noise: str = ""
    interval: str = ""
    beside: str = ""
    from_counts: bool = False

    def __str__(self) -> str:
        return f"{self.title} {self.counts}"

    def rows(self, evidence: Evidence) -> Iterable[RatingRow]:
        """Return its rows, without a dimension.

        Raises:
            InputError: If the evidence lacks what it needs, or a judged response is missing.
        """
        rows = None if self.rate is None else self.rate(evidence)
        if rows is None:
            raise InputError(
                f"{self.name!r} cannot rate by matches alone; expected {self.needs or self.beside} "
                "beside them; give them, or leave the method out"
            )
        return rows
