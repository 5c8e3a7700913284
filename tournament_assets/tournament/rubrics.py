"""A rubric: the versioned text that tells the judge how to judge one dimension."""

import re
from dataclasses import dataclass

from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint_text

_VERSION_LINE = re.compile(r"^#\s*version:\s*(?P<version>\S.*?)\s*$")


@dataclass(frozen=True, slots=True)
class Rubric:
    """A loaded rubric.

    Attributes:
        dimension: The quality it is about.
        version: What its `# version:` line says.
        text: The whole file as the judge sees it: Unix line ends, no outer white space.
        instructions: The project's own text on how to judge, whatever the dimension; None where
            the program's is sent.
    """

    dimension: str
    version: str
    text: str
    instructions: str | None = None

    @property
    def told(self) -> str:
        """All that the project's files tell the judge."""
        return self.text if self.instructions is None else f"{self.instructions}\n\n{self.text}"

    @property
    def content_hash(self) -> str:
        """SHA-256 of what the judge is told; files that differ only in line ends share it."""
        return fingerprint_text(self.told)


def parse_rubric(text: str, *, dimension: str, where: str) -> Rubric:
    """Read a rubric from the text of its file.

    Args:
        text: The file's whole text.
        dimension: The quality the rubric is about.
        where: The file's name, for messages.

    Raises:
        InputError: If the file says nothing or its first line is no `# version:` line.
    """
    normalised = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    first_line, _, body = normalised.partition("\n")
    match = _VERSION_LINE.match(first_line)
    if match is None:
        raise InputError(
            f"{where}:1: the rubric begins with {first_line[:60]!r}; "
            "expected a line such as '# version: 1'; add one and raise it with every edit"
        )
    if not body.strip():
        raise InputError(
            f"{where}:1: the rubric holds nothing after its version line; "
            f"expected the text that tells the judge how to judge {dimension}"
        )
    return Rubric(dimension=dimension, version=match["version"], text=normalised)
