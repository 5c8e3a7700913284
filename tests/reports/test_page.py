import base64
import hashlib
import html
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.rows import table_of, table_rows
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.reports.report_tables import ReportSection, ReportTable, light_text
from tournament_assets.reports.run.method_sections import glossary_section
from tournament_assets.reports.run.page import FIRST_SCREEN, iterate_pages
from tournament_assets.reports.sections import Doubt, Page, SectionRow
from tournament_assets.tournament.asset_rows import LeaderboardRow
from tournament_assets.tournament.config import ReportConfig

from .builders import (
    LOOPBACK,
    audit_row,
    battle_tables,
    page_of,
    render_html,
    render_markdown,
    section_row,
)

WARNING = "Do not rely on this"
STANDINGS = {
    "factuality": {"ada": 1490.0, "bob": 1390.0, "cy": 1320.0},
    "calibration": {"ada": 1400.0, "bob": 1410.0, "cy": 1390.0},
}
Renderer = Callable[[Page], str]
RENDERERS: list[Renderer] = [render_html, render_markdown]


class _Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def _doubts(given: Page) -> list[str]:
    return [doubt.sentence for doubt in given.all_doubts]


def _with_missing() -> Page:
    audit = [
        audit_row("ada", pairs=10, pairs_judged=9, replies_refused=1),
        audit_row("bob", pairs=10, pairs_judged=8, replies_unreadable=1, replies_pending=2),
        audit_row("cy", pairs=20, pairs_judged=19, responses=48),
    ]
    return page_of(STANDINGS, audit=audit)


def test_the_loopback_judge_is_the_first_thing_said() -> None:
    given = page_of(STANDINGS, judge_is_language_model=False)
    assert _doubts(given) == [f"judge: {LOOPBACK}. These results say nothing about quality."]
    for render in RENDERERS:
        page = render(given)
        assert page.index(WARNING) < page.index("is best on factuality")


def test_a_complete_tournament_with_a_real_judge_has_no_warning() -> None:
    given = page_of(STANDINGS)
    assert _doubts(given) == []
    for render in RENDERERS:
        page = render(given)
        assert not re.search(f"{WARNING}|with care:", page)
        assert "Different by quality" in page


def test_missing_verdicts_are_counted_in_presentations_and_by_entrant() -> None:
    *_, first, _ = _doubts(_with_missing())
    assert re.findall(r"(?:\w+ )?\d+ of \d+ \([\d.]+ %\)", first) == [
        *("2 of 40 (5.0 %)", "ada 1 of 20 (5.0 %)", "bob 3 of 20 (15.0 %)"),
    ]


def _red_light() -> list[Doubt]:
    return [Doubt("1 of 8 lights", "The judge on factuality: 1 of 8 red.", is_red=True)]


def test_a_stand_in_for_a_judge_is_named_before_its_red_lights() -> None:
    page = render_html(
        page_of(
            {"factuality": {"ada": 1410.0, "bob": 1390.0}},
            judge_is_language_model=False,
            sections=[SectionRow("lit", lambda: TRUST, after="win-grid", doubts=_red_light)],
        )
    )
    first = page.index("say nothing about quality")
    assert first < page.index("1 of 8 red")


def test_missing_responses_are_warned_of() -> None:
    *_, second = _doubts(_with_missing())
    assert re.findall(r"\w+ \d+ of \d+", second) == ["cy 48 of 50"]


def test_sections_come_in_the_order_of_what_matters() -> None:
    page = render_html(
        page_of(
            STANDINGS,
            judge_is_language_model=False,
            sections=[section_row(name, ReportSection(name)) for name in ("Third", "First")],
            battles=battle_tables([("ada", "bob", "a_wins")]),
        )
    )
    page = re.sub("(?s)<nav.*?</nav>", "", page)
    heads = [
        *("Do not rely", "ada is best", "Why to be careful", "Audit", "Who wins", "Win grid"),
        *("First", "Third", "Verdict in full", "The dimensions at a glance"),
        *("Ladder in numbers", "Undecided and equivalent", "Models side by side", "Battles"),
        *("Method", "Cost", "What the intervals mean", "Glossary", "Provenance"),
        "tournament run --config configs/demo.yaml --mode pilot",
    ]
    found = [re.search(rf"(?:<h[23][^>]*>|#+ |\b){re.escape(head)}", page) for head in heads]
    places = [match.start() for match in found if match]
    assert len(places) == len(heads)
    assert places == sorted(places)


@pytest.mark.parametrize("render", RENDERERS)
def test_everything_from_outside_is_escaped(render: Renderer) -> None:
    evil = "<script>alert(1)</script>|x"
    page = render(
        page_of(
            {"factuality": {evil: 1450.0, "bob": 1350.0}},
            named={"tournament_id": evil, "description": evil},
            judge_models={evil},
            judge_is_language_model=False,
            costs=[(evil, evil)],
            provenance=[(evil, evil)],
            command="tournament report",
        )
    )
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;") > (15 if render is render_html else 3)
    if render is render_markdown:
        assert not re.search(r"(?<!\\)\|x", page)


@pytest.mark.parametrize("render", RENDERERS)
def test_title_and_question_come_first_and_without_them_the_id(render: Renderer) -> None:
    top = ReportConfig(title="Ada or Bob", question="Who is the better doctor?")
    page = render(page_of(STANDINGS, named={"report": top}))
    places = [page.index(words) for words in ("Ada or Bob, pilot", top.question, "50 prompts")]
    assert places == sorted(places)
    assert re.search(r"(<h1>|# )demo, pilot", render(page_of(STANDINGS)))


def test_programs_read_the_first_screen() -> None:
    given = page_of(STANDINGS, judge_is_language_model=False)
    screen = json.loads(dict(iterate_pages(given))[FIRST_SCREEN])
    assert screen["title"] == "demo, pilot"
    assert screen["label"] == "Do not rely on this"
    assert screen["headline"] == "ada is best on factuality; bob on calibration."
    assert [(each["section"], each["is_red"]) for each in screen["doubts"]] == [("method", True)]


@pytest.mark.parametrize("render", RENDERERS)
def test_equal_contents_give_equal_bytes(render: Renderer) -> None:
    assert render(page_of(STANDINGS)) == render(page_of(STANDINGS))


def test_the_interval_and_every_hash_are_shown() -> None:
    page = render_html(page_of(STANDINGS))
    assert "1460\N{EN DASH}1520" in page  # prompts resampled: 30 around 1490
    assert "1490.0 ±" not in page  # Elo has order noise only: one number, one interval
    assert "ab" * 32 in page
    assert "cd" * 32 in page


@pytest.mark.parametrize("render", RENDERERS)
def test_dimensions_come_in_the_order_of_the_leaderboard(render: Renderer) -> None:
    page = render(page_of(STANDINGS))
    assert page.index("on factuality") < page.index("on calibration")


@pytest.mark.parametrize("render", RENDERERS)
def test_a_tournament_without_ratings_is_reported(render: Renderer) -> None:
    given = page_of(STANDINGS)
    frames: Any = given.tables
    nothing = dict.fromkeys(("rating", "rank", "low", "high", "elo", "elo_sem"))
    leaders = frames["leaderboard"].assign(**nothing)
    unrated = {
        d: f.assign(rating=None, rank=None, low=None, high=None)
        for d, f in frames["ratings"].items()
    }
    page = render(page_of(STANDINGS, tables={"leaderboard": leaders, "ratings": unrated}))
    assert "no ranking" in page
    assert "1490" not in page


KNOWN = [EntrantEconomy("ada", usd=2.5), EntrantEconomy("bob", 0.5), EntrantEconomy("cy")]


def test_the_page_needs_no_other_file() -> None:
    tags = _Tags(render_html(page_of(STANDINGS, economies=KNOWN))).tags
    names = {tag for tag, _ in tags}
    assert not names & {"link", "iframe", "object", "embed", "form", "base"}
    assert sum(tag == "svg" and "version" in attrs for tag, attrs in tags) == 4
    assert not any("src" in attrs or "style" in attrs for _, attrs in tags)
    assert all((attrs["href"] or "").startswith("#") for _, attrs in tags if "href" in attrs)


def test_pictures_have_texts_and_headers_have_scopes() -> None:
    tags = _Tags(render_html(page_of(STANDINGS, economies=KNOWN))).tags
    assert all(attrs.get("aria-label") for _, attrs in tags if attrs.get("role") == "img")
    assert {attrs.get("scope") for tag, attrs in tags if tag == "th"} == {"row", "col"}


def test_the_page_is_small() -> None:
    assert len(render_html(page_of(STANDINGS, economies=KNOWN))) < 200_000


def test_the_report_says_how_to_cite_it() -> None:
    versions = "tournament-assets 0.1.0 (commit ab), Python 3.12"
    page = render_html(page_of(STANDINGS, versions=versions))
    assert (
        "tournament demo, pilot, judged by judge-1; tournament-assets 0.1.0 (commit ab); " in page
    )
    assert f"configuration {('ab' * 32)[:12]}." in page


def test_the_command_is_escaped_in_the_page() -> None:
    command = "tournament run '<script>'"
    page = render_html(page_of(STANDINGS, command=command))
    (code,) = re.findall(r"<pre><code>([^<]*)</code></pre>", page)
    assert html.unescape(code) == command


TRUST = ReportSection(
    "Can it be trusted?",
    ("Most of it.", "<s>|x"),
    (
        ("", ReportTable(("test", "light", "number"), (("Swap <i>", light_text("amber"), "1|2"),))),
        ("More", ReportTable(("test", "said"), (("a", "green grass"),))),
    ),
)


def test_a_section_from_elsewhere_is_shown_whole_and_escaped() -> None:
    page = render_html(page_of(STANDINGS, sections=[section_row("trusted", TRUST)]))
    assert re.search(rf"(<h3>|### ){re.escape(TRUST.title)}", page)
    for words in ("Most of it.", "Swap &lt;i&gt;", "green grass", "More"):
        assert words in page
    assert "<i>" not in page
    assert "<s>" not in page


def test_a_light_is_marked_by_a_sign_beside_its_word() -> None:
    page = render_html(page_of(STANDINGS, sections=[section_row("trusted", TRUST)]))
    assert re.findall(r'"(light \w+)">(\w+)<', page) == [("light fair", "amber")]


def test_five_links_lead_to_the_parts_of_the_page() -> None:
    lit = SectionRow("trusted", lambda: TRUST, part="judge", after="win-grid")
    page = render_html(
        page_of(STANDINGS, sections=[lit], battles=battle_tables([("ada", "bob", "a_wins")]))
    )
    (contents,) = re.findall(r"(?s)<nav.*?</nav>", page)
    links = re.findall(r'href="#([\w-]+)">([^<]+)<', contents)
    assert [title for _, title in links] == [
        *("Why to be careful", "Who wins", "Judge", "Battles", "Method"),
    ]
    places = [page.index(f'<section id="{name}"') for name, _ in links]
    assert places == sorted(places)
    assert page.index('id="trusted"') > page.index('<section id="part-judge"')


def test_a_table_of_zeros_and_one_of_nothing_measured_become_a_sentence() -> None:
    headers = ("entrant", "lost", "found\nagain")
    shown = ReportSection(
        "Losses",
        tables=tuple(
            (title, ReportTable(headers, (("ada", *cells), ("bob", *cells))))
            for title, cells in (
                ("By accident", ("0", "0")),
                ("By design", ("\N{EN DASH}", "not measured")),
                ("By night", ("0", "\N{EN DASH}")),
            )
        ),
    )
    page = render_html(page_of(STANDINGS, sections=[section_row("losses", shown)]))
    assert "By accident: 0 everywhere (lost and found again)." in page
    assert "By design: not measured (lost and found again)." in page
    # Missing is never a value: a table of both is shown.
    tables = re.findall(r"(?:<caption>|# )(By \w+)", page)
    assert tables == ["By night"]


def test_row_headers_name_what_a_row_is_about() -> None:
    page = render_html(page_of(STANDINGS))
    rows = {
        name: re.findall(r'<th scope="row"[^>]*>([^<]*)<', page.split(f'id="{name}"')[1])[0]
        for name in ("audit", "verdict", "numbers")
    }
    assert rows == {"audit": "ada", "verdict": "factuality", "numbers": "ada"}
    pair = ReportTable(("upper", "lower", "gap"), (("ada", "bob", "3"),), 2, subject=(0, 1))
    shown = ReportSection("Pairs", tables=(("", pair),))
    page = render_html(page_of(STANDINGS, sections=[section_row("pairs", shown)]))
    heads = re.findall(r'<th scope="row"[^>]*>(\w+)<', page.split('id="pairs"')[1])[:2]
    assert heads == ["ada", "bob"]


_CELL = r"(?s)<t[hd][^>]*>(.*?)</t[hd]>"


def _ladders(page: str) -> list[list[list[str]]]:
    """Return the cells of every row of every ladder; a sign is what it is called."""
    page = re.sub(r'<i class="\w*" role="img" aria-label="([\w ]+)"></i>', r"\1,", page)
    return [
        [
            [re.sub("(?s)<svg.*</svg>|<[^>]*>", "", cell) for cell in re.findall(_CELL, row)]
            for row in table.split("</table>")[0].split("<tr>")[2:]
        ]
        for table in page.split('<table class="ladder">')[1:]
    ]


def test_a_line_of_the_ladder_has_rank_name_place_rating_and_interval() -> None:
    first, second = _ladders(render_html(page_of(STANDINGS)))
    assert [row[:5] for row in first] == [
        ["1", "ada", "best, 1", "1490", "1460–1520"],
        ["2", "bob", "no longer, 2", "1390", "1360–1420"],
        ["3", "cy", "no longer, 3", "1320", "1290–1350"],
    ]
    # The order of the first dimension holds on every other one.
    assert [row[1:4] for row in second] == [
        ["ada", "no longer, 2", "1400"],
        ["bob", "best, 1", "1410"],
        ["cy", "no longer, 3", "1390"],
    ]


def test_long_names_are_shortened_on_the_first_screen_and_named_in_full_below() -> None:
    long = {
        f"a-house-of-models-{name}-instruct": 1500.0 - place for place, name in enumerate("xyz")
    }
    named = {"report": ReportConfig(labels={"a-house-of-models-z-instruct": "<b>Zed"})}
    given = page_of({"tone": long}, named=named)
    page = render_html(given)
    assert [row[1] for row in _ladders(page)[0]] == ["x", "y", "&lt;b&gt;Zed"]
    assert "<b>" not in page.replace("<b></b>", "")
    assert '<p class="headline">x is best on tone.</p>' in page
    assert page.count('title="a-house-of-models-') == 3
    assert "&lt;b&gt;Zed: " in page.split("Full names</summary>")[1]
    assert "y is a-house-of-models-y-instruct" in render_markdown(given)


@pytest.mark.parametrize("render", RENDERERS)
def test_a_broken_entrant_is_named_first(render: Renderer) -> None:
    means = {"ada": 1490.0, "silent": 1390.0, "bob": 1320.0}
    audit = [audit_row("ada"), audit_row("silent", empty_responses=50), audit_row("bob")]
    page = render(page_of({"tone": means}, audit=audit, judge_is_language_model=False))
    other = "the judge is not" if render is render_html else "say nothing about quality"
    broken = "silent left 50 of 50 answers empty"
    places = [page.index(words) for words in (WARNING, broken, other)]
    assert places == sorted(places)
    assert places[-1] < page.index("is best on tone")


def test_each_verdict_says_what_it_cost() -> None:
    page = render_html(page_of(STANDINGS, prices={"factuality": 0.0123, "calibration": None}))
    said = re.sub(r"[\\]|<[^>]*>", "", page)
    assert "it cost $0.0123." in said
    assert "unknown amount" in said
    assert "in all" not in said
    whole = render_html(page_of(STANDINGS, prices={"factuality": 1.0, "calibration": 2.5}))
    assert "$3.50 in all." in whole.replace("\\", "")


def test_cost_and_speed_are_shown_where_they_are_known_and_missing_is_a_dash() -> None:
    title = "Quality against cost and speed"
    assert title not in render_html(page_of(STANDINGS))
    page = render_html(page_of(STANDINGS, economies=KNOWN))
    assert title in page
    fronts = re.findall(r"On (\w+), the front of quality and cost: ([^.]*)\.", page)
    found = {dimension: re.findall("ada|bob|cy", names) for dimension, names in fronts}
    assert found == {"factuality": ["ada", "bob"], "calibration": ["bob"]}
    table = page[page.index("US dollars for 1,000") :]
    cells = re.sub(r"</t[dh]>\s*<t[dh][^>]*>", " | ", table)
    assert re.findall(r">(ada|cy) \| (\S+) \|", cells)[:2] == [("ada", "2.50"), ("cy", "–")]


def test_markdown_is_one_page_with_every_rating_and_what_each_section_found() -> None:
    means = {f"entrant_{n}": 1500.0 - 20 * n for n in range(10)}
    page = render_markdown(page_of(dict.fromkeys(("factuality", "tone", "style"), means)))
    assert len(page.splitlines()) <= 60
    for name, mean in means.items():
        assert re.search(rf"\| {name} \|(?: . {mean:.0f} \({mean - 30:.0f}–.*? \|){{3}}", page)
    assert "- Audit: " in page
    assert "tournament run --config configs/demo.yaml" in page


def test_what_is_undecided_is_listed_with_its_record() -> None:
    given = page_of(STANDINGS)
    leaders: Any = given.tables["leaderboard"]
    pairs: Any = given.tables["win_rates"]
    level = [row | {"shown_above": []} for row in table_rows(LeaderboardRow, leaders)]
    unclaimed = {
        name: frame.assign(claim="undecided", difference_low=-9.0) for name, frame in pairs.items()
    }
    tables = {"leaderboard": table_of(LeaderboardRow, level), "win_rates": unclaimed}
    page = render_html(page_of(STANDINGS, tables=tables))
    cells = re.sub(r"</t[dh]>\s*<t[dh][^>]*>", " | ", page).replace("\\", "")
    assert "undecided in 3" in page
    assert "ada | bob | undecided | +100.0 (-9 to 150) | 51 | 29 | 8 | 11 |" in cells
    assert "factuality and calibration: 0 everywhere (same text)." in page


def test_only_the_page_s_own_style_and_script_are_allowed() -> None:
    page = render_html(page_of(STANDINGS))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    policy = html.unescape(policy)
    directives = [each.split(" ", 1) for each in policy.split("; ")]
    closed = [name for name, *sources in directives if sources == ["'none'"]]
    assert closed == ["default-src", "base-uri", "form-action"]
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (text,) = re.findall(rf"(?s)<{tag}>(.*?)</{tag}>", page)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "style=" not in page.split("</style>")[1].split("<script>")[0]
    assert ".innerHTML" not in page


def test_the_glossary_of_the_documentation_is_the_one_of_the_report() -> None:
    page = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = glossary_section().tables[0][1].rows
    assert words == tuple(sorted(words, key=lambda row: row[0].casefold()))
    for word, meaning in words:
        assert f"| {word} | {meaning} |" in page
    assert page.count("\n| ") == len(words) + 1


def test_the_win_grid_of_many_entrants_numbers_its_columns() -> None:
    many = {f"entrant_{n}": 1500.0 - n for n in range(7)}
    page = render_html(page_of({"factuality": many}))
    grid = page[page.index("row beats column") :]
    heads = re.findall(r'<th scope="col">([^<]*)</th>', grid[: grid.index("</thead>")])
    assert heads == ["1", "2", "3", "4", "5", "6", "7"]
    assert re.search(r"7\sentrant_<wbr>6</th>", grid)
    few = render_html(page_of({"factuality": dict(list(many.items())[:6])}))
    grid = few[few.index("row beats column") :]
    assert ">entrant_0</th>" in grid[: grid.index("</thead>")]
