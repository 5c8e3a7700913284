"""Judges that are also entrants, by what a config shows, never by a part of a name.

A judge is an entrant if both have the same model id and that id is a provider's, a published one
such as `Qwen/Qwen3-8B`, or asked at one address; if its id is the folder or the source of the
entrant's weights; or if it is the model of recorded responses. It tends to favour its own text:
Panickssery, Bowman and Feng, "LLM evaluators recognize and favor their own generations",
https://arxiv.org/abs/2404.13076.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import urlsplit

from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.entrants import AnyEntrant
from tournament_assets.tournament.judge_services import service_for
from tournament_assets.tournament.judges import Judge

WHY = "judges tend to prefer their own responses"
ADVICE = "use another judge, leave the entrant out, or compare with labels by people"


@dataclass(frozen=True, slots=True)
class PlayingJudge:
    """A judge, by its model, that is also an entrant; and what the two have in common."""

    judge: str
    entrant_id: str
    same: str

    @property
    def said(self) -> str:
        """The judge and the entrant that it is."""
        return f"judge {self.judge!r} is also entrant {self.entrant_id!r} ({self.same})"

    @property
    def sentence(self) -> str:
        """The same, why it matters, and what to do."""
        return f"{self.said}: {WHY}; {ADVICE}"


def playing_judges(
    plan: TournamentPlan, mode: Mode, *, models: Collection[str | None] = ()
) -> list[PlayingJudge]:
    """Return the judges of a mode that are also entrants, each juror by itself.

    Args:
        models: The models that judged; None, or nothing, for those that the config names.
    """
    config = plan.config
    judges: dict[str, Judge] = {}
    for model in models or (None,):
        known = [each for each in config.judges if each.model == model]
        asked = config.judges_of(mode) if model is None else known[:1]
        judges |= {each.model: each for each in asked or [config.lead(mode).asking(str(model))]}
    return [
        PlayingJudge(judge.model, entrant.entrant_id, same)
        for _, judge in sorted(judges.items())
        for entrant in config.entrants
        if (same := _same(judge, entrant, plan))
    ]


def _same(judge: Judge, entrant: AnyEntrant, plan: TournamentPlan) -> str:
    """Return what a judge and an entrant have in common that makes them one; empty if nothing."""
    environment, folder = plan.project.environment, plan.project.folder
    weights, server = entrant.model_place, entrant.server
    if weights is not None:
        # A server is often started with the folder or the source of its weights as its name.
        names = (weights.path, environment.get(weights.env or ""), weights.source)
        is_same = PurePath(folder, judge.model) in {
            PurePath(folder, each) for each in names if each
        }
        return "same weights" * is_same
    if entrant.model_name != judge.model:
        return ""
    if server is None:
        return "same model"
    address = _address(server.base_url(environment))
    if address[0] and address == _address(judge.url(environment)):
        return "same model at the same address"
    # Servers give a name such as `default` to any model; a provider's or publisher's is one.
    is_published = "/" in judge.model and not judge.model.startswith(("/", ".", "~"))
    return "same model" * (is_published or service_for(judge.model) is not None)


def _address(url: str) -> tuple[str | None, int | None, str]:
    """Return the part of a base URL that tells servers apart."""
    parts = urlsplit(url)
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return host, port, parts.path.rstrip("/").removesuffix("/v1")
