"""Thirty configs with a typical mistake: each answer says where, what was found and expected."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from tournament_assets.cli import main
from tournament_assets.project.new_projects import write_new_project


@dataclass(frozen=True)
class Mistake:
    """One mistake in the config of a new project, and the facts that its answer must hold.

    Attributes:
        old: What stands in the config; the whole of it if empty.
        new: What stands there instead.
        key: The path of the key; empty where the file is not YAML.
        says: What was found, what was expected, or which file is meant.
        at: What stands in the line that the answer must name; the new text by default.
        file: The file and line that the answer must name, if not the config's.
    """

    old: str
    new: str
    key: str
    says: Sequence[str]
    at: str = ""
    file: str = ""


MISTAKES = {
    "misspelt key": Mistake("entrants:", "entrnts:", "entrnts", ["unknown", "'entrants'"]),
    "misspelt key inside": Mistake(
        "    rubric: ", "    rubrik: ", "dimensions.correctness.rubrik", ["'rubric'"]
    ),
    "misspelt key of a judge": Mistake(
        "    model: loop", "    modle: loop", "judges.0.modle", ["'model'"]
    ),
    "unknown service": Mistake(
        "service: loopback", "service: antropic", "judges.0.service", ["'antropic'", "'anthropic'"]
    ),
    "unknown model of a service": Mistake(
        "model: loopback-lexical",
        "model: gpt-5",
        "judges.0",
        ["'gpt-5'", "'loopback'"],
        at="service: loopback",
    ),
    "words for a number": Mistake(
        "modes:",
        "ratings: {k_factor: sixteen}\nmodes:",
        "ratings.k_factor",
        ["'sixteen'", "number"],
    ),
    "a list for a mapping": Mistake(
        "modes:", "ratings: [16]\nmodes:", "ratings", ["[16]", "k_factor"]
    ),
    "a mapping for a list": Mistake(
        "  - service: loopback\n    model: loopback-lexical\n    waiting:",
        "  service: loopback\n  model: loopback-lexical\n  waiting:",
        "judges",
        ["list"],
        at="judges:\n",
    ),
    "words for a list": Mistake(
        "modes:", "owners: me@here.org\nmodes:", "owners", ["'me@here.org'", "list"]
    ),
    "a tab": Mistake("  pilot:", "\tpilot:", "", ["tab"]),
    "wrong indentation": Mistake(
        "    share: 0.5", "   share: 0.5\n    prewarm: true", "", ["indent"], at="prewarm"
    ),
    "a key not indented": Mistake(
        "  pilot:\n    share", "pilot:\n    share", "", ["indented less"], at="headline: {}"
    ),
    "an open quote": Mistake("tournament_id: mine ", "tournament_id: 'mine ", "", ["quote"]),
    "a colon in words": Mistake(
        "description: Two reviewers", "description: Mine: two reviewers", "", ["quote"]
    ),
    "two entrants of one name": Mistake(
        "entrant_id: with_checklist",
        "entrant_id: plain",
        "entrants.1.entrant_id",
        ["'plain'", "twice"],
        at='- entrant_id: plain\n    loader: recorded\n    description: "Names',
    ),
    "a key twice": Mistake("judging:\n", "modes: {}\njudging:\n", "modes", ["second time"]),
    "no bank": Mistake(
        "prompts.jsonl", "promts.jsonl", "prompt_bank", ["'promts.jsonl'", "does not exist"]
    ),
    "no rubric": Mistake(
        "rubrics/correctness.txt",
        "rubrics/correct.txt",
        "dimensions.correctness.rubric",
        ["correct.txt"],
    ),
    "no responses": Mistake(
        "responses/plain.jsonl",
        "responses/plane.jsonl",
        "entrants.plain.responses",
        ["'responses/plane.jsonl'", "does not exist"],
    ),
    "a folder for a file": Mistake(
        "{path: prompts.jsonl}", "{path: rubrics}", "prompt_bank", ["folder", "file"]
    ),
    "a path outside": Mistake(
        "prompts.jsonl",
        "../elsewhere/prompts.jsonl",
        "prompt_bank",
        ["'../elsewhere/prompts.jsonl'", "does not exist"],
    ),
    "a path without its key": Mistake(
        "{path: prompts.jsonl}", "prompts.jsonl", "prompt_bank", ["'prompts.jsonl'", "path"]
    ),
    "a dimension without rubric": Mistake(
        "    rubric: rubrics/usefulness.txt\n",
        "    shows_gold_answer: true\n",
        "dimensions.usefulness.rubric",
        ["missing"],
        at="  usefulness:",
    ),
    "an empty dimension": Mistake(
        "  usefulness:\n    rubric: rubrics/usefulness.txt\n",
        "  usefulness:\n",
        "dimensions.usefulness",
        ["rubric"],
    ),
    "a negative share": Mistake("share: 0.5", "share: -0.5", "modes.pilot.share", ["-0.5", "0"]),
    "a share in per cent": Mistake(
        "share: 0.5", "share: 50%", "modes.pilot.share", ["'50%'", "number"]
    ),
    "no pilot": Mistake("  pilot:", "  pilott:", "modes", ["pilot is missing"], at="modes:"),
    "an unknown stratum": Mistake(
        "    share: 0.5", "    strata: {bugs: 4}", "modes.pilot.strata", ["'bugs'"]
    ),
    "a negative budget": Mistake(
        "  domain: code review",
        "  budget: {usd: -1}",
        "judging.budget.usd",
        ["judging.budget.usd is -1; expected it to be greater"],
    ),
    "a budget in words": Mistake(
        "  domain: code review", "  budget: $20", "judging.budget", ["'$20'", "usd"]
    ),
    "one entrant": Mistake(
        "  - entrant_id: with_checklist\n    loader: recorded\n    "
        'description: "Names the fault first, and then a fix."\n'
        "    responses: {path: responses/with_checklist.jsonl}\n",
        "",
        "entrants",
        ["1", "two"],
        at="entrants:",
    ),
    "an unknown loader": Mistake(
        "loader: recorded",
        "loader: openai",
        "entrants.0",
        ["'openai'", "openai_api"],
        at="- entrant_id: plain",
    ),
    "a name with a space": Mistake(
        "tournament_id: mine",
        "tournament_id: My tournament",
        "tournament_id",
        ["'My tournament'", "a-z"],
    ),
    "a judge that no mode has": Mistake(
        "  headline: {}",
        "  headline: {judges: [claude]}",
        "modes.headline.judges",
        ["'claude'", "loopback-lexical"],
    ),
    "an empty file": Mistake("", "", "", ["empty"], at=""),
    "a dimension of another name": Mistake(
        "  usefulness:\n",
        "  utility:\n",
        "",
        ["'utility'", "'usefulness'"],
        file="rubrics/usefulness.txt:2",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_config_is_told_where_and_what(name: str, tmp_path: Path) -> None:
    made, mistake = write_new_project(tmp_path / "mine").config, MISTAKES[name]
    text = made.read_text()
    assert mistake.old in text
    wrong = text.replace(mistake.old, mistake.new, 1) if mistake.old else mistake.new
    made.write_text(wrong)
    answer = CliRunner().invoke(main, ["run", "--config", str(made), "--mode", "pilot"])
    assert answer.exit_code == 2
    line = wrong[: wrong.index(mistake.at or mistake.new.strip())].count("\n") + 1
    place = mistake.file or f"{made}:{line}"
    problems = [each for each in answer.stderr.split("\n  - ") if each.startswith(f"{place}: ")]
    facts = (mistake.key, *mistake.says)
    assert any(all(fact in each for fact in facts) for each in problems), (place, answer.stderr)
