"""The settings that every entrant has, and which of them count in its fingerprint."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.tournament.places import Frozen, Location

IDENTIFIER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
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

    A field that is a `Location` names a file: its content counts in what the responses depend on.

    Attributes:
        answered_by: The module and function that get its responses, given the entrant and a
            `responses.entrant_responses.Wanted`; imported then.
        entrant_id: Stable identifier used in tables, file names and reports.
        loader: Which recipe turns the description into responses.
        description: What a reader should know about it.
    """

    answered_by: ClassVar[str]
    entrant_id: str = Field(pattern=IDENTIFIER_PATTERN)
    loader: str
    description: str = ""

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
    def longest_response(self) -> int:
        """The tokens that a response is assumed to have before it is there."""
        return int(getattr(self, "max_new_tokens", 256))

    def settings_without(self, *names: str) -> JsonObject:
        """Return the settings for a fingerprint, without its names and the given fields."""
        return self.changed(without=("entrant_id", "description", *names))

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
        strip: `think` removes a reasoning model's thoughts, up to `</think>`, from the response and
            keeps them beside it.
    """

    seed: int | None = Field(default=None, ge=0)
    strip: Literal["think"] | None = None


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
