"""A hook of mkdocs: a link out of `docs/` becomes the name of the file, which must be there.

The pages link to configurations and sources beside them, which a site of the documentation does
not hold; in the repository the links work as they stand.
"""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parents[1]
_OUTSIDE = re.compile(
    r"\[([^\]]+)\]\((\.\./[^)#\s]+|notebook\.ipynb|example/[^)#\s]+)(?:#[^)\s]*)?\)"
)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace the links of a page that lead out of the documentation.

    Raises:
        PluginError: If a file that a page names is not there.
    """

    def name(match: re.Match[str]) -> str:
        target = (ROOT / "docs" / page.file.src_uri).parent / match[2]
        if not target.exists():
            raise PluginError(f"{page.file.src_uri} links to {match[2]}, which is not there")
        path = f"`{Path(os.path.normpath(target)).relative_to(ROOT).as_posix()}`"
        return match[1] if match[1].strip("`") in path else f"{match[1]} ({path})"

    return _OUTSIDE.sub(name, markdown)
