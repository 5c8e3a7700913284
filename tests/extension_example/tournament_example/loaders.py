"""A loader of a folder of text files, one for each prompt that is answered.

Entrants are read before anything that knows a config, so the functions import what they need.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from tournament_assets.tournament.entrant_settings import EntrantSpec, LoaderRow
from tournament_assets.tournament.places import Location
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

if TYPE_CHECKING:
    from tournament_assets.project.plan import TournamentPlan
    from tournament_assets.responses.entrant_responses import Wanted
    from tournament_assets.responses.local_responses import CompletedResponses


class TextFilesEntrant(EntrantSpec):
    """Responses in a folder, each in a file that is called after its prompt's id.

    Attributes:
        folder: The folder; a prompt without a file has no response.
    """

    loader: Literal["text_files"]
    folder: Location

    @property
    def answers_once(self) -> bool:
        """True: a file holds one answer."""
        return True


def read_answers(
    entrant: TextFilesEntrant, plan: "TournamentPlan", bank: Sequence[Prompt]
) -> list[GeneratedResponse]:
    """Return the responses of the files that are there, in bank order."""
    from tournament_assets.project.project_files import places_of

    (folder,) = places_of(entrant, plan.project)
    files = {prompt.prompt_id: folder / f"{prompt.prompt_id}.txt" for prompt in bank}
    return [
        GeneratedResponse(prompt_id, file.read_text(encoding="utf-8"), "recorded")
        for prompt_id, file in files.items()
        if file.is_file()
    ]


def answer(entrant: TextFilesEntrant, wanted: "Wanted") -> "CompletedResponses":
    """Return the responses to the prompts that are wanted."""
    from tournament_assets.responses.local_responses import CompletedResponses

    responses = read_answers(entrant, wanted.plan, wanted.prompts)
    return CompletedResponses(responses, 0, "a folder of text files")


ROWS = (
    LoaderRow(
        entrant=TextFilesEntrant,
        answer=f"{__name__}:answer",
        answered=f"{__name__}:read_answers",
    ),
)
