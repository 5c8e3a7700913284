from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tournament_assets.reports.rendering import escape_markdown
from tournament_assets.reports.report_tables import (
    Document,
    ReportSection,
    ReportTable,
    document_markdown,
)

_SIGNS = st.text(alphabet="ab1 _*`[]()<>&|!#-+=~.:/\\{}$@\"'\n", max_size=30)


def _shown(markdown: str) -> str:
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    children = tokens[1].children or []
    assert {token.type for token in children} <= {"text", "text_special"}
    return "".join(token.content for token in children)


@given(_SIGNS.filter(str.strip))
@example("1. a")
@example("1) a")
@example("- a")
@example("a\n===")
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    assert _shown(escape_markdown(text)) == " ".join(text.split())


def test_a_table_cell_stays_one_cell() -> None:
    escaped = escape_markdown("a|b\nc")
    tokens = MarkdownIt("commonmark").enable("table").parse(f"| x |\n|---|\n| {escaped} |\n")
    cells = [token.content for token in tokens if token.type == "inline"]
    assert cells == ["x", "a|b c"]


def test_ids_stay_readable_in_the_source() -> None:
    assert escape_markdown("olmo2_poe-v1.2 (95 %):") == "olmo2_poe-v1.2 (95 %):"


def test_code_is_not_altered_and_stays_code() -> None:
    command = "tournament run <b> ```\n# not a heading"
    template = document_markdown(Document("demo", [ReportSection("Provenance", command=command)]))
    tokens = MarkdownIt("commonmark").parse(template)
    code = [token.content for token in tokens if token.type == "code_block"]
    assert code == [f"{command}\n"]


def test_signs_that_turn_the_direction_of_a_text_are_shown_as_escapes() -> None:
    assert "\u202e" not in escape_markdown("a\u202eb")
    table = ReportTable(("name",), (("a\u202eb",),))
    section = ReportSection("tone\u2067", ("ada\u200f leads",), (("tone", table),))
    page = document_markdown(Document("j\u202d", [section]))
    assert not set(page) & set("\u2067\u202e\u200f\u202d")
    assert "u202e" in page
