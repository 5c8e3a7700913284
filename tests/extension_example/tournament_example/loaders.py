"""A loader of a folder of text files, one for each prompt that is answered."""

from collections.abc import Sequence
from typing import Literal

from tournament_assets import extension
from tournament_assets.extension import EntrantSpec, LoaderRow, Location


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
    entrant: TextFilesEntrant,
    plan: "extension.TournamentPlan",
    bank: Sequence["extension.Prompt"],
) -> list["extension.GeneratedResponse"]:
    """Return the responses of the files that are there, in bank order."""
    (folder,) = extension.places_of(entrant, plan.project)
    files = {prompt.prompt_id: folder / f"{prompt.prompt_id}.txt" for prompt in bank}
    return [
        extension.GeneratedResponse(prompt_id, file.read_text(encoding="utf-8"), "recorded")
        for prompt_id, file in files.items()
        if file.is_file()
    ]


def answer(entrant: TextFilesEntrant, wanted: "extension.Wanted") -> "extension.CompletedResponses":
    """Return the responses to the prompts that are wanted."""
    responses = read_answers(entrant, wanted.plan, wanted.prompts)
    return extension.CompletedResponses(responses, 0, "a folder of text files")


ROWS = (
    LoaderRow(
        entrant=TextFilesEntrant,
        answer=f"{__name__}:answer",
        answered=f"{__name__}:read_answers",
    ),
)
