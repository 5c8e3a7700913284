"""Hooks of mkdocs: reference pages come from the code, links out of `docs/` become file names.

The pages link to configurations and sources beside them, which a site of the documentation does
not hold; in the repository the links work as they stand. A page that shows the example of an
extension links to its files, whose text is in the site. The example's report is in the site, as
it is.
"""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from reference_docs import PAGES

from tournament_assets.reports.rendering import render_template

ROOT = Path(__file__).parents[1]
_SHOWN = re.compile(r"^\[`[^`]+`\]\((\.\./tests/extension_example/\S+)\)$", re.MULTILINE)
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+|notebook\.ipynb)(?:#[^)\s]*)?\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that come from the code, and the report's style with the site's own."""
    style = render_template("report.css") + (ROOT / "docs" / "theme" / "site.css").read_text()
    made = {name: render() for name, render in PAGES.items()} | {"style.css": style}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Let a keyboard scroll a table that is wider than the page."""
    html = html.replace("<table>", '<section class="scroll" tabindex="0"><table>')
    return html.replace("</table>", "</table></section>")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace the links of a page that lead out of the documentation.

    A line that is nothing but a link to a file of the example of an extension shows that file.

    Raises:
        PluginError: If a file that a page names is not there.
    """

    def name(match: re.Match[str]) -> str:
        target = (ROOT / "docs" / page.file.src_uri).parent / match[2]
        if not target.exists():
            raise PluginError(f"{page.file.src_uri} links to {match[2]}, which is not there")
        path = f"`{Path(os.path.normpath(target)).relative_to(ROOT).as_posix()}`"
        return match[1] if match[1].strip("`") in path else f"{match[1]} ({path})"

    def show(match: re.Match[str]) -> str:
        path = ROOT / "docs" / match[1]
        if not path.is_file():
            raise PluginError(f"{page.file.src_uri} shows {match[1]}, which is not there")
        language = {".py": "python", ".toml": "toml"}[path.suffix]
        return f"`{path.name}`:\n\n```{language}\n{path.read_text()}```"

    return _OUTSIDE.sub(name, _SHOWN.sub(show, markdown))


def on_post_build(*, config: MkDocsConfig) -> None:
    """Write what the search of the site reads: every section's page, title and text, once."""
    folder = Path(config.site_dir)
    entries = json.loads((folder / "search" / "search_index.json").read_text())["docs"]
    shutil.rmtree(folder / "search")
    pages = {row["location"]: row["title"] for row in entries if "#" not in row["location"]}
    sections = [
        row | {"page": pages[row["location"].partition("#")[0]]}
        for row in entries
        if "#" in row["location"]
    ]
    (folder / "search_index.js").write_text(f"window.searchIndex = {json.dumps(sections)};\n")
