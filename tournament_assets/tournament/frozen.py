"""The model that everything in a config is built on."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Cannot be changed, takes no unknown key, and turns no text into a number."""

    # An input can be a URL with a password in it: no exception repeats what was given.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)
