"""The settings that every entrant has, and which of them count in its fingerprint."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.tournament.places import Frozen, Location, ServerAddress

IDENTIFIER_PATTERN = r"^\w[\w.-]*$"
TemplateArguments = Annotated[dict[str, JsonValue], Field(min_length=1)]
"""Variables of a chat template."""
ExtraFields = Annotated[dict[str, JsonValue], Field(min_length=1)]
"""Fields of a request to a server."""
StopStrings = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1, strict=False)
]
"""Texts that end a response."""
Precision = Literal["bfloat16", "float16", "float32"]
"""The precision of a model's weights."""
TEMPLATE_DATE = date(2025, 1, 1)
"""The day that a chat template is told, unless the entrant names another one."""


_OWN_FIELDS = frozenset(
    {
        "model",
        "messages",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "seed",
        "stop",
        "n",
        "stream",
        "stream_options",
    }
)


def refuse_own_fields(
    fields: Mapping[str, JsonValue] | None, *others: str
) -> dict[str, JsonValue] | None:
    """Return further fields of a request, unless the program sets them itself.

    Args:
        fields: What a config adds to every request.
        others: Fields that the program sets besides those of every request.
    """
    taken = sorted((fields or {}).keys() & _OWN_FIELDS.union(others))
    if taken:
        raise ValueError(
            f"{', '.join(taken)} cannot be set here; expected fields that no setting gives, of a "
            "request for one whole answer"
        )
    return None if fields is None else dict(fields)


class EntrantSpec(Frozen):
    """Structural description of an entrant; each loader adds the fields it needs.

    A field that is a `Location` names a file or a folder: its content counts in what the responses
    depend on. Whatever else the program has to know of an entrant, its class or its `LoaderRow`
    says.

    Attributes:
        kind: What Dagster shows it as, such as `pytorch`; None for a file.
        generates_here: Whether it is generated on this machine, so that it needs a GPU.
        is_bought: Whether it is asked through the judges' connections, on their account.
        takes_seed: Whether each prompt is sent with its own seed; else equal texts are asked once.
        entrant_id: Stable identifier used in tables, file names and reports: letters of any script,
            digits, `_`, `.` and `-`.
        strip: `think` tells a reasoning model's thoughts, up to `</think>` or what its like, apart
            from the response and keeps them beside it. It can change at any time: nothing is
            generated again.
        loader: Which recipe turns the description into responses.
        description: What a reader should know about it.
    """

    kind: ClassVar[str | None] = None
    generates_here: ClassVar[bool] = False
    is_bought: ClassVar[bool] = False
    takes_seed: ClassVar[bool] = False
    entrant_id: str = Field(pattern=IDENTIFIER_PATTERN)
    loader: str
    description: str = ""
    strip: Literal["think"] | None = None

    @property
    def cuts_thoughts(self) -> bool:
        """Whether what the model thinks aloud is no part of the response."""
        return self.strip == "think"

    @property
    def display_settings(self) -> JsonObject:
        """The settings that distinguish this entrant, for tables: every field but its names."""
        return self.model_dump(
            mode="json", exclude={"entrant_id", "description"}, exclude_none=True
        )

    @property
    def files(self) -> Mapping[str, Location]:
        """The places of the files that it is made of, by the fields that name them."""
        return {name: value for name, value in self if isinstance(value, Location)}

    @property
    def answers_once(self) -> bool:
        """Whether it has one answer to a prompt, the same in every sample of it."""
        return False

    @property
    def service(self) -> str | None:
        """The service that answers for it; None if none is contacted."""
        return None

    @property
    def server(self) -> ServerAddress | None:
        """Where its server is; None if it has none, or its service is reached as a judge's is."""
        return None

    @property
    def model_name(self) -> str | None:
        """The name of the model that answers; None if it has none but its files."""
        return None

    @property
    def model_place(self) -> Location | None:
        """The folder of the model that answers; None if it is not there."""
        return None

    @property
    def priced_as(self) -> str | None:
        """The model of the price list that its responses are paid as; None if nothing is paid."""
        return self.model_name if self.service is not None else None

    @property
    def upstream_asset(self) -> str | None:
        """The key of the asset of the surrounding project that holds its responses, if one does."""
        return None

    @property
    def content_hash(self) -> str | None:
        """SHA-256 of what it is, where its files do not say so; None if they do."""
        return None

    @property
    def longest_response(self) -> int:
        """The tokens that a response is assumed to have before it is there."""
        return 256

    def settings_without(self, *names: str) -> JsonObject:
        """Return the settings for a fingerprint: without names, reading and the given fields."""
        return self.changed(without=("entrant_id", "description", "strip", *names))

    def fingerprint(self, content_hash: str) -> str:
        """SHA-256 of everything its responses depend on besides the prompt.

        The entrant's name is left out: renaming an entrant does not generate anything again.

        Args:
            content_hash: SHA-256 of the weights or the recorded file the entrant reads.
        """
        settings = self.settings_without(*self.files)
        return fingerprint({"settings": settings, "content": content_hash})


class WrittenEntrant(EntrantSpec):
    """An entrant whose responses are written for the tournament.

    Attributes:
        seed: Changes the random numbers of every prompt; without it they depend on the prompt
            alone.
        max_new_tokens: The most tokens of one response.
    """

    seed: int | None = Field(default=None, ge=0)
    max_new_tokens: int = Field(default=256, ge=1)

    @property
    def longest_response(self) -> int:
        """The most tokens of one response."""
        return self.max_new_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderRow:
    """A loader: the class of its entrants, and what needs a higher floor than the class.

    Functions are named as `module:function`, and imported when they are called.

    Attributes:
        entrant: The class; its field `loader` has one value, which is the loader's name.
        answer: Returns the `CompletedResponses` of an entrant, given it and a
            `responses.entrant_responses.Wanted`.
        answered: Returns the `GeneratedResponse` of every prompt that an entrant has answered
            without being asked, given it, a plan and the bank. For responses that exist before the
            run: one that is missing then stays missing. Without it, the ledger says what is
            answered.
        check: Returns the problems of entrants, given all whose rows name this function, and a
            `preparing.preflight.Preflight`. Without it, every file has to be there, and what is
            answered can be read.
        content: Returns an object with `paths`, all files that a stamp looks at, and `fingerprint`,
            the hash of their content, given an entrant and a project. Without it, these are the
            files that the entrant's fields name and the files in the folders that they name.
        estimate: Returns a `ResponseEstimate` of what asking costs, given an entrant, a plan, the
            prompts to ask and the ledger. Without it, responses cost nothing.
    """

    entrant: type[EntrantSpec]
    answer: str
    answered: str | None = None
    check: str | None = None
    content: str | None = None
    estimate: str | None = None


def refuse_narrowed_greed(entrant: EntrantSpec, *names: str) -> None:
    """Refuse settings that narrow sampling where decoding is greedy.

    Args:
        entrant: It has a temperature and these settings, each None where it is not given.
        names: The settings.
    """
    given = [name for name in names if getattr(entrant, name) is not None]
    if given and getattr(entrant, "temperature", None) is None:
        raise ValueError(
            f"{' and '.join(given)} without temperature: greedy decoding takes the most probable "
            "token whatever they are; expected a temperature too, or neither"
        )
