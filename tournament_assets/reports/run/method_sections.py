"""The report's sections on method: cost, intervals, glossary, method and provenance."""

from collections.abc import Mapping, Sequence

from tournament_assets.foundation.formatting import format_confidence, format_usd
from tournament_assets.project.playing_judges import PlayingJudge
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.reports.rendering import render_sentences
from tournament_assets.reports.report_tables import ReportSection, ReportTable
from tournament_assets.reports.sections import Doubt
from tournament_assets.tournament.config import Mode, TournamentConfig


def total_price(prices: Mapping[str, float | None]) -> str:
    """Return the total cost of judging; empty if a price is not known."""
    amounts = [price for price in prices.values() if price is not None]
    return format_usd(sum(amounts)) if amounts and len(amounts) == len(prices) else ""


def cost_section(
    *, prices: Mapping[str, float | None], costs: Sequence[tuple[str, str]]
) -> ReportSection:
    """Return the section on costs."""
    price = total_price(prices)
    table = ReportTable(("what", "amount"), tuple(costs), look="pairs")
    return ReportSection(
        "Cost",
        (f"Judging cost {price} in all.",) if price else (),
        (("What was spent on what", table),),
        finding=f"judging cost {price}" if price else "",
    )


def intervals_section(*, confidence: float) -> ReportSection:
    """Return the section that explains the intervals."""
    words = render_sentences("intervals.jinja", confidence=format_confidence(confidence))
    return ReportSection("What the intervals mean", words)


def glossary_section() -> ReportSection:
    """Return the section with the glossary of every report: terms and their meanings."""
    rows = tuple(tuple(line.split(" | ", 1)) for line in render_sentences("glossary.jinja"))
    table = ReportTable(("word", "meaning"), rows, look="pairs")
    return ReportSection(
        "Glossary",
        tables=(("What the words mean", table),),
        finding="what the words of this page mean",
    )


def method_section(*, judge_label: str, judge_model: str) -> ReportSection:
    """Return the section on how pairs are judged and rated."""
    judge = f"Judge: {judge_label}; model: {judge_model}."
    return ReportSection(
        "Method",
        (judge, *render_sentences("method.jinja")),
        finding="how pairs are judged and rated",
    )


def judge_doubts(
    *,
    judge_label: str,
    judge_is_language_model: bool,
    playing: Sequence[PlayingJudge],
    economies: Sequence[EntrantEconomy],
) -> list[Doubt]:
    """Return the doubts about who judged and who answered: a stand-in, an entrant, another model.

    Args:
        playing: The judges that are also entrants.
        economies: What is known of each entrant's responses.
    """
    doubts = [Doubt(each.said, f"{each.sentence}.") for each in playing]
    doubts += [
        Doubt(
            f"another model answered for {each.entrant_id}",
            f"{each.entrant_id}: {each.other_model}.",
            is_red=True,
        )
        for each in economies
        if each.other_model is not None
    ]
    if judge_is_language_model:
        return doubts
    sentence = f"judge: {judge_label}. These results say nothing about quality."
    return [Doubt("the judge is not a language model", sentence, is_red=True), *doubts]


def provenance_section(
    *,
    config: TournamentConfig,
    mode: Mode,
    judge_model: str,
    provenance: Sequence[tuple[str, str]],
    versions: str,
    command: str,
) -> ReportSection:
    """Return the section of all that determines the result, with the command to repeat it."""
    program = versions.partition(",")[0]
    _, _, configuration = dict(provenance).get("config", "").rpartition(" ")
    citation = (
        f"To cite this result: tournament {config.tournament_id}, {mode}",
        f", judged by {judge_model}" if judge_model else "",
        f"; {program}" if program else "",
        f"; configuration {configuration[:12]}" if configuration else "",
        ". The program itself is cited as its CITATION.cff says.",
    )
    hashes = ReportTable(("what", "value"), tuple(provenance), look="pairs hashes")
    return ReportSection(
        "Provenance",
        (
            *((f"With {versions}.",) if versions else ()),
            "".join(citation),
            "This report is made again by the command below.",
        ),
        (("Everything that decides the result", hashes),),
        finding="every hash, seed and version, how to cite this, and how to make it again",
        command=command,
    )
