import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from benchmarks.gate import Judge, measure_passes
from tests.projects import FinishedPilot
from tests.reports.builders import leader_row
from tests.run_comparison.test_run_reading import VERDICT, write_leaderboard
from tournament_assets.cli import main
from tournament_assets.foundation.errors import InputError
from tournament_assets.reports.report_tables import document_markdown
from tournament_assets.run_comparison.differences import SettledPair
from tournament_assets.run_comparison.gate import (
    Gate,
    GateSettings,
    Passage,
    gate_document,
    gate_sentences,
    hold_gate,
    read_looks,
    remember,
)
from tournament_assets.run_comparison.run_reading import FinishedRun, read_finished_runs
from tournament_assets.tournament.verdicts import Outcome
from tournament_assets.trust.lights import Bias
from tournament_assets.trust.measures import ALL_DIMENSIONS, MEASURES

ROOT = Path(__file__).parents[2]
SETTINGS = GateSettings(candidate="new", baseline="old", margin=20)
GREEN = {"judge_consistency": "green"}


def run(
    outcomes: str,
    *,
    name: str = "headline_1",
    first: int = 0,
    dimensions: tuple[str, ...] = ("facts",),
    **manifest: Any,
) -> FinishedRun:
    """A run of two entrants: a letter a prompt, n where new won, o old, t a tie, - unjudged."""
    meaning = {
        "n": Outcome.A_WINS,
        "o": Outcome.B_WINS,
        "t": Outcome.TIE,
        "-": Outcome.UNJUDGED,
    }
    verdicts = {
        dimension: tuple(
            SettledPair(f"p{n}", dimension, "new", "old", meaning[letter])
            for n, letter in enumerate(outcomes, start=first)
        )
        for dimension in dimensions
    }
    described: dict[str, Any] = {
        "entrants": ["new", "old"],
        "judge": "claude-judge",
        "is_partial": False,
        "trust": dict.fromkeys(dimensions, GREEN),
        "prompts_planned": {dimension: len(outcomes) for dimension in dimensions},
        "inputs": {"responses": {"new": "a" * 64, "old": "b" * 64}},
        **manifest,
    }
    return FinishedRun(Path("runs") / name, described, verdicts, {}, {})


BETTER, WORSE, EVEN = "nnnot" * 20, "ooont" * 20, "not" * 10


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [(BETTER, Passage.NOT_WORSE), (WORSE, Passage.WORSE), (EVEN, Passage.UNDECIDED)],
)
def test_the_gate_says_what_the_verdicts_show(outcomes: str, expected: Passage) -> None:
    gate = hold_gate(run(outcomes), SETTINGS)
    assert gate.passage is expected
    assert f"exit code {expected.exit_code}" in gate_sentences(gate)[0]


def test_the_gate_counts_a_pair_for_as_many_prompts_as_it_stands_for() -> None:
    stopped = run(
        "nnnot" * 4 + "ooont" * 4, pairs_not_needed={"facts": 60}, prompts_planned={"facts": 100}
    )
    pairs = stopped.verdicts["facts"]
    tail = tuple(replace(each, weight=4.0) for each in pairs[20:])
    weighed = replace(stopped, verdicts={"facts": (*pairs[:20], *tail)})
    (found,) = hold_gate(weighed, SETTINGS).dimensions
    repeated = run("nnnot" * 4 + "ooont" * 16)
    (expected,) = hold_gate(repeated, SETTINGS).dimensions
    assert found.test.difference.value == pytest.approx(expected.test.difference.value)
    assert found.test.difference.value is not None
    assert (found.test.settled, found.doubts) == (40, ())


def test_the_gate_decides_nothing_about_an_entrant_that_does_not_answer() -> None:
    broken = run(BETTER, broken_entrants={"old": "left 99 of 100 answers empty", "x": "slept"})
    gate = hold_gate(broken, SETTINGS)
    assert gate.passage is Passage.UNDECIDED
    assert gate_sentences(gate)[1] == "facts: old left 99 of 100 answers empty."


def test_the_gate_reads_shares() -> None:
    pairs = run(EVEN).verdicts["facts"]
    shared = tuple(replace(each, share=0.75) for each in pairs[:15])
    (found,) = hold_gate(
        replace(run(EVEN), verdicts={"facts": (*shared, *pairs[15:])}), SETTINGS
    ).dimensions
    (even,) = hold_gate(run(EVEN), SETTINGS).dimensions
    assert even.test.difference.value == pytest.approx(0, abs=1e-6)
    assert found.test.difference.value is not None
    assert found.test.difference.value > 0


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"judge": "loopback (lexical, not a language model)"}, "not a language model"),
        ({"trust": {"facts": {"flip bias": "red"}}}, "red: flip bias"),
        ({"trust": {"facts": GREEN, ALL_DIMENSIONS: {"flips": "red"}}}, "red: flips over all"),
        ({"trust": {}}, "does not say"),
        ({"is_partial": True}, "partial"),
        ({"prompts_planned": {"facts": 110}}, "100 of 110 pairs"),
    ],
)
def test_what_makes_verdicts_doubtful_never_opens_the_gate(
    changes: dict[str, Any], doubt: str
) -> None:
    gate = hold_gate(run(BETTER, **changes), SETTINGS)
    assert gate.passage is Passage.UNDECIDED
    assert any(doubt in sentence for sentence in gate_sentences(gate))


def test_missing_verdicts_leave_it_undecided() -> None:
    assert hold_gate(run(BETTER + "---"), SETTINGS).passage is Passage.UNDECIDED
    assert hold_gate(run(BETTER + "--"), SETTINGS).passage is Passage.NOT_WORSE


def test_one_dimension_that_is_worse_closes_the_gate() -> None:
    both = run(BETTER, dimensions=("facts", "style"))
    both = FinishedRun(
        both.folder,
        both.manifest,
        {**both.verdicts, "style": run(WORSE, dimensions=("style",)).verdicts["style"]},
        {},
        {},
    )
    assert hold_gate(both, SETTINGS).passage is Passage.WORSE
    facts = GateSettings(candidate="new", baseline="old", dimensions=("facts",))
    assert hold_gate(both, facts).passage is Passage.NOT_WORSE


def test_one_of_two_dimensions_is_held_to_a_stricter_level_only_for_closing_the_gate() -> None:
    """To pass takes all of them, and to fail takes one."""
    alone = hold_gate(run("nooot" * 5), SETTINGS).dimensions[0]
    together = hold_gate(run("nooot" * 5, dimensions=("facts", "style")), SETTINGS).dimensions[0]
    assert together.p_not_worse == alone.p_not_worse
    assert together.p_worse == pytest.approx(2 * alone.p_worse)


def look_again(gate: Gate, path: Path) -> None:
    remember(path, gate, read_looks(path))


def test_looks_are_counted_and_their_evidence_adds_up(tmp_path: Path) -> None:
    path = tmp_path / "looks.jsonl"
    sequential = GateSettings(candidate="new", baseline="old", sequential=True)
    half, rest = run("nnnot" * 4), run("nnnot" * 16, name="headline_2", first=20)
    first = hold_gate(half, sequential, history=read_looks(path))
    assert first.passage is Passage.UNDECIDED
    look_again(first, path)
    look_again(first, path)
    assert len(read_looks(path)) == 1
    second = hold_gate(rest, sequential, history=read_looks(path))
    assert second.looks_before == 1
    assert second.dimensions[0].p_not_worse < first.dimensions[0].p_not_worse < 1
    assert second.passage is Passage.NOT_WORSE
    again = hold_gate(half, sequential, history=read_looks(path))
    assert again.looks_before == 0
    assert again.dimensions[0].p_not_worse == pytest.approx(first.dimensions[0].p_not_worse)


def test_the_same_prompts_judged_again_are_no_new_evidence(tmp_path: Path) -> None:
    path = tmp_path / "looks.jsonl"
    sequential = GateSettings(candidate="new", baseline="old", sequential=True)
    first = hold_gate(run("nnnot" * 4), sequential)
    look_again(first, path)
    again = hold_gate(run("nnnnn" * 4, name="later"), sequential, history=read_looks(path))
    assert again.dimensions[0].p_not_worse == pytest.approx(first.dimensions[0].p_not_worse)
    other = run("nnnot" * 4, name="later", inputs={"responses": {"new": "c" * 64, "old": "b" * 64}})
    assert hold_gate(other, sequential, history=read_looks(path)).looks_before == 0


def test_a_file_of_looks_that_is_none_names_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "looks.jsonl"
    path.write_text('{"points": {"p1": 2}}\nnonsense\n')
    with pytest.raises(InputError) as refused:
        read_looks(path)
    assert [problem.split(" ")[0] for problem in refused.value.problems] == [
        "looks.jsonl:1:",
        "looks.jsonl:2:",
    ]


def test_an_unknown_dimension_is_refused() -> None:
    with pytest.raises(InputError, match=r"'taste'.*facts"):
        hold_gate(run(BETTER), GateSettings("new", "old", dimensions=("taste",)))


def test_markdown_holds_the_table_and_no_markup_of_a_name() -> None:
    page = document_markdown(gate_document(hold_gate(run(BETTER, name="a_*run*"), SETTINGS)))
    assert "\\*run\\*" in page
    assert "| facts" in page


def test_the_command_ends_with_the_exit_code(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "headline_1", BETTER)
    asked = ["gate", str(folder), "--candidate", "new", "--baseline", "old"]
    summary = tmp_path / "summary.md"
    passed = CliRunner().invoke(main, [*asked, "--json", "--markdown", str(summary)])
    assert passed.exit_code == 0, passed.output
    assert json.loads(passed.stdout)["passage"] == "not worse"
    assert summary.read_text().startswith("# Gate: new")
    assert (tmp_path / "gate_history.jsonl").is_file()
    worse = CliRunner().invoke(main, ["gate", str(folder), "--candidate=old", "--baseline=new"])
    assert worse.exit_code == 1
    nobody = CliRunner().invoke(main, ["gate", str(folder), "--candidate=x", "--baseline=new"])
    assert nobody.exit_code == 2


def write_run(folder: Path, outcomes: str) -> Path:
    """Write the files of a run directory that are read."""
    finished = run(outcomes)
    (folder / "verdicts").mkdir(parents=True)
    manifest = {**finished.manifest, "dimensions": ["facts"]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    write_leaderboard(folder, [leader_row(name, None) for name in ("new", "old")])
    rows = [
        {
            **VERDICT,
            "prompt_id": pair.prompt_id,
            "entrant_a": pair.entrant_a,
            "entrant_b": pair.entrant_b,
            "outcome": pair.outcome.value,
            "share": pair.outcome.share,
        }
        for pair in finished.verdicts["facts"]
    ]
    (folder / "verdicts" / "facts.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return folder


def test_an_amber_light_is_named_and_blocks_nothing() -> None:
    clear = run(BETTER)
    amber = {"facts": {"flips": "amber"}, ALL_DIMENSIONS: {"flips": "amber"}}
    unclear = replace(clear, manifest={**clear.manifest, "trust": amber})
    before, after = (hold_gate(each, SETTINGS) for each in (clear, unclear))
    assert before.passage is after.passage is Passage.NOT_WORSE
    assert after.dimensions[0].doubts == ()
    assert after.dimensions[0].amber == ("flips", f"flips over {ALL_DIMENSIONS}")
    (added,) = {*gate_sentences(after)} - {*gate_sentences(before)}
    assert "amber" in added
    assert added.endswith(f": flips and flips over {ALL_DIMENSIONS}.")


def test_a_run_says_all_that_the_gate_asks(finished_pilot: FinishedPilot) -> None:
    (finished,) = read_finished_runs([finished_pilot.summary.directory])
    gate = hold_gate(finished, GateSettings(candidate="careful", baseline="sloppy"))
    assert all("language model" in each.doubts[0] for each in gate.dimensions)
    assert "length_effect" in gate.dimensions[0].amber
    assert any("length_effect" in each for each in gate_sentences(gate))
    assert {each.test.settled for each in gate.dimensions} == {4, 6}
    assert finished.manifest["prompts_planned"] == {"factuality": 4, "calibration": 6}


def run_action(inputs: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Do what `action.yml` does, with inputs and defaults as the service hands them over."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = (each for each in action["runs"]["steps"] if each.get("id") == "gate")
    for name, output in action["outputs"].items():
        assert output["value"] == f"${{{{ steps.gate.outputs.{name} }}}}"
    values = {name: str(each.get("default", "")) for name, each in action["inputs"].items()}
    values |= inputs
    environment = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: values[found[1]], text)
        for name, text in step["env"].items()
    }
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        env={
            **os.environ,
            **environment,
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GITHUB_OUTPUT": str(folder / "outputs.txt"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_action_ends_as_the_command_does(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a run; with blanks", BETTER)
    inputs = {"run": str(folder), "candidate": "new", "baseline": "old", "dimensions": "facts\n"}
    done = run_action(inputs, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not worse" in (tmp_path / "summary.md").read_text()
    strict = {**inputs, "margin": "500", "min-coverage": "1"}
    assert run_action(strict, tmp_path).returncode == 0
    assert run_action({**inputs, "dimensions": "taste"}, tmp_path).returncode == 2
    swapped = {**inputs, "candidate": "old", "baseline": "new"}
    assert run_action(swapped, tmp_path).returncode == 1
    assert (tmp_path / "outputs.txt").read_text().splitlines() == [
        *("exit-code=0", "passage=not worse") * 2,
        *("exit-code=2", "passage="),
        *("exit-code=1", "passage=worse"),
    ]


def test_a_test_of_somebody_fails_unless_the_candidate_passes(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "headline_1", BETTER)
    (tmp_path / "test_models.py").write_text(
        "def test_new(assert_not_worse):\n"
        f"    assert_not_worse({str(folder)!r}, candidate='new', baseline='old')\n"
        "def test_old(assert_not_worse):\n"
        f"    assert_not_worse({str(folder)!r}, candidate='old', baseline='new')\n"
    )
    plugin = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "pytest", "-q", "-p", plugin["pytest11"]["tournament_gate"], "-c/dev/null"),
            str(tmp_path / "test_models.py"),
        ],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "--color=no"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout
    assert "old is worse than new by more than 20 Elo points" in done.stdout


def lit(name: str, **manifest: Any) -> FinishedRun:
    """A run with a better candidate, a third entrant, and one red light."""
    return run(
        BETTER,
        **{"entrants": ["new", "old", "third"], "trust": {"facts": {name: "red"}}, **manifest},
    )


def doubts_of(finished: FinishedRun, settings: GateSettings = SETTINGS) -> tuple[str, ...]:
    gate = hold_gate(finished, settings)
    (held,) = gate.dimensions
    assert (gate.passage is Passage.UNDECIDED) == bool(held.doubts)
    return held.doubts


@pytest.mark.parametrize(
    "name", [each.name for each in MEASURES.values() if each.bias is Bias.NONE]
)
def test_a_red_light_that_only_costs_power_is_named_and_blocks_nothing(name: str) -> None:
    for trust in ({"facts": {name: "red"}}, {"facts": {}, ALL_DIMENSIONS: {name: "red"}}):
        gate = hold_gate(lit(name, trust=trust), SETTINGS)
        assert gate.passage is Passage.NOT_WORSE
        (sentence,) = (each for each in gate_sentences(gate) if name in each)
        assert "costs power only" in sentence
    worse = run(WORSE, trust={"facts": {name: "red"}})
    assert hold_gate(worse, SETTINGS).passage is Passage.WORSE


@pytest.mark.parametrize(
    "name", [each.name for each in MEASURES.values() if each.bias is not Bias.NONE]
)
def test_a_red_light_that_can_bias_the_difference_blocks(name: str) -> None:
    assert doubts_of(lit(name)) == (f"the trust panel is red: {name}",)


def test_a_doubt_that_dimensions_share_stands_once() -> None:
    gate = hold_gate(run(BETTER, dimensions=("facts", "style"), is_partial=True), SETTINGS)
    (sentence,) = (each for each in gate_sentences(gate) if "partial" in each)
    assert sentence.startswith("facts and style: ")


def test_flips_and_slots_only_cost_power_and_what_favours_one_of_the_two_biases() -> None:
    harmless = {each.name for each in MEASURES.values() if each.bias is Bias.NONE}
    assert harmless >= {"swap_consistency", "flip_direction", "position_bias"}
    assert harmless.isdisjoint({"unjudged", "longer_wins"})


@pytest.mark.parametrize(("who", "blocks"), [("new", True), ("old", True), ("third", False)])
def test_unjudged_pairs_block_if_they_are_of_one_of_the_two(who: str, blocks: bool) -> None:
    assert bool(doubts_of(lit(f"unjudged of {who}"))) == blocks


@pytest.mark.parametrize(
    ("dimension", "entrants", "blocks"),
    [
        ("facts", [], True),
        ("facts", ["old"], True),
        ("facts", ["third"], False),
        ("style", [], False),
        (None, ["new", "third"], True),
        (None, ["third"], False),
    ],
)
def test_an_outage_blocks_if_it_concerns_the_two(
    dimension: str | None, entrants: list[str], blocks: bool
) -> None:
    outage = {"kind": "verdicts", "dimension": dimension, "entrants": entrants, "short": "gone"}
    outages = {"outages": ["Gone."], "missing": [{**outage, "sentence": "Gone."}]}
    assert doubts_of(lit("swap_consistency", **outages)) == ("gone",) * blocks


def test_an_outage_of_nobody_knows_whom_blocks() -> None:
    assert doubts_of(lit("swap_consistency", outages=["Gone."])) == ("Gone",)


@pytest.mark.parametrize("light", ["length_effect", "longer_wins"])
@pytest.mark.parametrize(
    ("gains", "blocks"),
    [
        ({}, False),
        ({"third": {"old": 900.0}}, False),
        ({"new": {"old": 5.0}}, False),
        ({"new": {"old": 500.0}}, True),
        ({"old": {"new": 500.0}}, False),
        ({"old": {"new": -500.0}}, True),
    ],
)
def test_a_length_effect_blocks_where_the_two_differ_enough_to_decide(
    light: str, gains: dict[str, dict[str, float]], blocks: bool
) -> None:
    assert bool(doubts_of(lit(light, length_gains={"facts": gains}))) == blocks


def test_what_length_may_have_cost_the_candidate_leaves_it_undecided_whether_it_is_worse() -> None:
    trust = {"facts": {"length_effect": "red"}}
    for gains, blocks in (({"old": {"new": 500.0}}, True), ({"new": {"old": 500.0}}, False)):
        worse = run(WORSE, length_gains={"facts": gains}, trust=trust)
        assert bool(doubts_of(worse)) == blocks


def test_a_judge_that_is_one_of_the_two_blocks_and_one_that_is_both_does_not() -> None:
    def played_by(*names: str, judge: str = "m") -> dict[str, Any]:
        rows = [{"judge": judge, "entrant_id": name, "same": "same model"} for name in names]
        return {"judges_that_play": rows}

    for name in ("new", "old"):
        (doubt,) = doubts_of(run(BETTER, **played_by(name, "third")))
        assert f"'m' is also entrant '{name}'" in doubt
    assert doubts_of(run(BETTER, **played_by("third"))) == ()
    both = run(BETTER, **played_by("new", "old"))
    assert doubts_of(both) == ()
    assert any("both" in sentence for sentence in gate_sentences(hold_gate(both, SETTINGS)))
    jury = played_by("new")["judges_that_play"] + played_by("old", judge="n")["judges_that_play"]
    assert len(doubts_of(run(BETTER, judges_that_play=jury))) == 2


def test_the_docs_say_of_every_light_whether_it_blocks() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    words = {Bias.NONE: "never", Bias.DIFFERENCE: "always", Bias.LENGTH: "where lengths differ"}
    lights = {each.name: words[each.bias] for each in MEASURES.values()}
    assert {name: rows.get(name) for name in lights} == lights


def test_an_equal_candidate_passes_as_often_with_the_lights_of_an_unsure_judge() -> None:
    """`python -m benchmarks.gate` does it a thousand times at each slot and agreement."""
    unsure = Judge(slot=0.6, agreement=0.58)
    passes = measure_passes(unsure, prompts=200, lead=0.0, n=12, margin=60.0)
    assert passes.held == passes.by_statistics > 0.5
    assert passes.without_red == 0
