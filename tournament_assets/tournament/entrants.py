"""Entrants: a model together with its decoding settings, or a file of what one said.

Everything here is serialisable and free of torch, so that a whole tournament can be hashed, logged
and planned on a machine that could not load a single model.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from tournament_assets.tournament.api_entrants import AnthropicApiEntrant, OpenAiApiEntrant
from tournament_assets.tournament.entrant_spec import EntrantSpec
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant
from tournament_assets.tournament.places import Location


class VanillaHfEntrant(EntrantSpec):
    """A causal language model in a Hugging Face folder, decoded token by token.

    Attributes:
        weights: The folder with `config.json`, the tokenizer and safetensors weights.
        temperature: Sampling temperature; None decodes greedily.
        max_new_tokens: The most tokens of one response.
        system_prompt: Put before the prompt in the chat template, if given.
    """

    loader: Literal["vanilla_hf"]
    weights: Location
    temperature: float | None = Field(default=None, gt=0)
    max_new_tokens: int = Field(default=256, ge=1)
    system_prompt: str | None = None


class RecordedEntrant(EntrantSpec):
    """Responses that something else has generated, in a JSONL or Parquet file.

    Attributes:
        responses: The file; each row holds `prompt_id` and `response`.
    """

    loader: Literal["recorded"]
    responses: Location

    def fingerprint(self, content_hash: str) -> str:
        """SHA-256 of the recorded file; where it lies does not count."""
        return fingerprint({"loader": self.loader, "content": content_hash})


LOADERS = ("vanilla_hf", "custom_poe", "recorded", "openai_api", "anthropic_api")
LocalEntrant = VanillaHfEntrant | CustomPoeEntrant
"""An entrant that is generated on this machine."""
AnyEntrant = (
    VanillaHfEntrant | CustomPoeEntrant | RecordedEntrant | OpenAiApiEntrant | AnthropicApiEntrant
)


def get_entrant(entrants: Sequence[AnyEntrant], entrant_id: str) -> AnyEntrant:
    """Look an entrant up by its stable id.

    Raises:
        InputError: If there is none of that id.
    """
    for entrant in entrants:
        if entrant.entrant_id == entrant_id:
            return entrant
    known = ", ".join(entrant.entrant_id for entrant in entrants)
    raise InputError(f"there is no entrant {entrant_id!r}; expected one of {known}")
