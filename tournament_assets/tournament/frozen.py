"""The model that everything in a config is built on."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Cannot be changed, takes no unknown key, and turns no text into a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
