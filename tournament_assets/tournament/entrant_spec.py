"""What all entrants have in common: a name, a loader, and a fingerprint."""

from typing import Any

from pydantic import Field

from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.frozen import Frozen

IDENTIFIER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class EntrantSpec(Frozen):
    """Structural description of an entrant; each loader adds the fields it needs.

    Attributes:
        entrant_id: Stable identifier used in tables, file names and reports.
        loader: Which recipe turns the description into responses.
        description: What a reader should know about it.
    """

    entrant_id: str = Field(pattern=IDENTIFIER_PATTERN)
    loader: str
    description: str = ""

    @property
    def display_settings(self) -> dict[str, Any]:
        """What sets this entrant apart, for tables: every field but its names."""
        return self.model_dump(
            mode="json", exclude={"entrant_id", "description"}, exclude_none=True
        )

    def fingerprint(self, content_hash: str) -> str:
        """SHA-256 of everything its responses depend on besides the prompt.

        The entrant's name is left out: renaming an entrant does not generate anything again.

        Args:
            content_hash: SHA-256 of the weights or the recorded file the entrant reads.
        """
        settings = self.model_dump(mode="json", exclude={"entrant_id", "description", "weights"})
        return fingerprint({"settings": settings, "content": content_hash})
