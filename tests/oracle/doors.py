"""Compares what every door says of a drawn run with its tables: typed statements, then their words.

The doors are the page, its Markdown, the first screen in the manifest, the console, the catalogue,
the notebook and the gate; the site of all runs stands with its extra.
"""

import html
import io
import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.oracle.comparison import Oracle
from tests.oracle.drawn_runs import DIMENSION
from tests.reports.claims_reference import Facts
from tests.reports.test_claims_fuzz import check
from tournament_assets.audits.more_prompts import MOST_PROMPTS
from tournament_assets.python_api import open_run
from tournament_assets.reports.claims import Statements
from tournament_assets.reports.next_steps import MIN_PAIRS, next_step
from tournament_assets.reports.statements import (
    Better,
    Careful,
    Equivalent,
    Missing,
    NextStep,
    Undecided,
    answer,
    render,
    verdict,
)
from tournament_assets.reports.terminal import print_document
from tournament_assets.run_comparison import gate as gates
from tournament_assets.run_comparison.gate import GateSettings, Passage
from tournament_assets.run_comparison.run_reading import read_finished_runs
from tournament_assets.trust.lights import TrustState


def find_falsehoods(oracle: Oracle) -> Iterator[str]:
    """Name what a door says of a run that its tables do not bear out, or leaves out."""
    config = oracle.drawn.config
    within, confidence = config.ratings.equivalent_within, config.ratings.confidence
    rows, met = oracle.rows("leaderboard"), oracle.rows("win_rates")
    facts = Facts(rows, met, DIMENSION, within, confidence)
    try:
        check(facts)
    except AssertionError as error:
        yield f"statements: {error}"
    board = Statements.of(rows, met, dimension=DIMENSION)
    step = next_step(board, confidence=confidence, n_samples=config.generation.n_samples)
    yield from _of_next_step(facts, step)
    short = render(answer(board, equivalent_within=within))
    full = render(verdict(board, equivalent_within=within))
    folder = Path(oracle.drawn.tables.metadata["run_artifacts", ""]["directory"])
    screen = json.loads((folder / "manifest.json").read_text())["first_screen"]
    if not str(screen["answers"][0]).startswith(short):
        yield f"first screen: {screen['answers']} instead of {short!r}"
    yield from _of_first_screen(facts, screen, (folder / "report.md").read_text(encoding="utf-8"))
    named = [each for each in screen["next_steps"] if each.startswith(("About", f"On {DIMENSION}"))]
    if not any("did not answer" in each for each in screen["next_steps"]) and (
        named != [render([step])] if step else named
    ):
        yield f"first screen: {named} instead of {step}"
    for door, text in _doors(folder).items():
        for sentence in (short if door in _SHORT else full, *screen["next_steps"]):
            if _words(sentence) not in _words(text):
                yield f"{door}: does not say {sentence!r}"
        for word in _EQUIVALENT.findall(_words(text)):
            if f"±{within:g} Elo points" not in word:
                yield f"{door}: {word!r} has no margin"
    catalogue = oracle.drawn.tables.metadata["leaderboard", ""][f"verdict_{DIMENSION}"]
    if _words(str(catalogue)) != _words(full):
        yield f"catalogue: {catalogue!r} instead of {full!r}"
    yield from _of_gate(oracle, folder)


def _of_first_screen(facts: Facts, screen: Mapping[str, Any], page: str) -> Iterator[str]:
    """Compare the label, whom the sentence names, and the signs of the ladder with the tables."""
    circle = Careful(dimension=DIMENSION, why="circle")
    outcome = facts.outcome() if facts.missing() or facts.unbeaten else circle
    label, names_first = _LABELS[type(outcome)]
    label = "Copies are best" if label == "One is best" and len(outcome.names) > 1 else label
    if any(doubt["is_red"] for doubt in screen["doubts"]):
        label = "Do not rely on this"
    if screen["label"] != label:
        yield f"first screen: {screen['label']!r} instead of {label!r}"
    named = [name for name in facts.by_name if re.search(rf"\b{name}\b", screen["headline"])]
    first = outcome.names[: 2 if names_first else 0]
    if {*named} != {*first} or DIMENSION not in screen["headline"]:
        yield f"first screen: {screen['headline']!r} of {outcome}"
    rest = len(outcome.names) - 2
    if names_first and rest > 0 and f" {rest} more " not in screen["headline"]:
        yield f"first screen: {screen['headline']!r} leaves out {rest}"
    for name, row in facts.by_name.items():
        sign = "" if row.rank_best is None else "◐ " if row.rank_best == 1 else "○ "
        sign = "● " if isinstance(outcome, Better) and name in outcome.names else sign
        if f"| {name} | {sign}" not in page or (
            not sign and re.search(rf"\| {name} \| [●◐○]", page)
        ):
            yield f"report.md: {name} is not marked with {sign!r}"


_LABELS = {
    Better: ("One is best", True),
    Equivalent: ("Equivalent at the top", True),
    Undecided: ("Undecided at the top", True),
    Careful: ("Nobody is first", False),
    Missing: ("Nobody is first", False),
}
"""By how a dimension ended: the label, and whether the sentence names who is or may be first."""
_SHORT = ("report.html", "report.md")
_EQUIVALENT = re.compile(rf"are equivalent on {DIMENSION}.{{0,60}}")


def _words(text: str) -> str:
    return " ".join(text.replace("\\", "").split())


def _doors(folder: Path) -> dict[str, str]:
    """Return the text that each door shows of a run."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    page = re.sub(r"(?s)<(script|style).*?</\1>|<wbr>", "", page)
    document = open_run(folder)._document()
    console = io.StringIO()
    print_document(document, Console(file=console, width=10_000))
    return {
        "report.html": html.unescape(re.sub(r"<[^>]+>", "", page)),
        "report.md": html.unescape((folder / "report.md").read_text(encoding="utf-8")),
        "console": console.getvalue(),
        "notebook": html.unescape(re.sub(r"<[^>]+>", "", open_run(folder)._repr_html_())),
    }


def _of_next_step(facts: Facts, step: NextStep | None) -> Iterator[str]:
    """Say what is wrong with further prompts, or that none are named where something is open."""
    first = [
        name
        for place, name in enumerate(facts.names)
        if name in facts.unbeaten
        and not any(facts.is_copy(name, above) for above in facts.names[:place])
    ]
    is_best = bool(first) and all(
        (first[0], other) in facts.better for other in facts.rivals if other != first[0]
    )
    pairs = [facts.pair(*two) for two in combinations(first, 2)]
    settled = min((pair.record.settled for pair in pairs), default=MIN_PAIRS)
    if step is None:
        return
    if is_best or facts.basis is None or settled < MIN_PAIRS:
        yield f"{step}, where nothing is open, judging stopped, or {settled} pairs are settled"
    if all(pair.claim == "equivalent" for pair in pairs) and len(first) > 1:
        yield f"{step}, where {first} are equivalent"
    if [*step.names] != first:
        yield f"{step}, where {first} may be best"
    more = step.more
    if more is None:
        return
    if not (0 < more.prompts <= MOST_PROMPTS and more.chance >= 0.79):
        yield f"{step} decides nothing"
    if not 1 <= more.leave <= max(1, len(first) // 2):
        yield f"{step} leaves too many"


def _of_gate(oracle: Oracle, folder: Path) -> Iterator[str]:
    """Hold every first two entrants to a gate, and compare what it says with the pairs."""
    (run,) = read_finished_runs([folder])
    for candidate, baseline in combinations(oracle.entrants[:3], 2):
        settings = GateSettings(candidate=candidate, baseline=baseline, margin=30.0)
        gate = gates.hold_gate(run, settings)
        (dimension,) = gate.dimensions
        test = dimension.test
        rated = [oracle.recomputed.ratings[name] for name in (candidate, baseline)]
        if test.difference.value is not None:
            ours, theirs = rated
            if ours is None or theirs is None or abs(ours - theirs - test.difference.value) > 1e-3:
                yield f"gate: {test.difference} of {rated}"
        is_red = TrustState.RED in (run.at("trust", DIMENSION) or {}).values()
        blocked = bool(dimension.doubts)
        allowed = {
            Passage.NOT_WORSE: not blocked and dimension.p_not_worse <= 0.05,
            Passage.WORSE: not blocked and dimension.p_worse <= 0.05,
            Passage.UNDECIDED: blocked or min(dimension.p_not_worse, dimension.p_worse) > 0.05,
        }
        if not allowed[gate.passage] or gate.passage is not dimension.passage:
            yield f"gate: {gate.passage} of {dimension}"
        said, *_ = (*gates.gate_sentences(gate), "")
        word = {"not worse": "is not worse", "worse": "is worse", "undecided": "Undecided"}
        if word[gate.passage] not in said or "30 Elo points (an expected win share of" not in said:
            yield f"gate: {said!r} of {gate.passage}"
        if is_red and not (dimension.doubts or dimension.harmless):
            yield f"gate: a red light of {candidate} and {baseline} is not named"
        (cells,) = gates.gate_table(gate).rows
        if cells[-1] != gate.passage:
            yield f"gate: {cells} of {gate.passage}"
