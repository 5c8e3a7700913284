import csv
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.projects import SmallProject, bank_rows, make_project, recorded_responses
from tournament_assets.cli import main
from tournament_assets.extras.people.labelling.server import TOKEN_VARIABLE


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallProject:
    made = make_project(tmp_path / "project")
    monkeypatch.setenv("DAGSTER_HOME", made.environment["DAGSTER_HOME"])
    return made


def label(project: SmallProject, *options: str) -> tuple[int, str]:
    scope = ["--config", str(project.config_path), "--mode", "headline"]
    result = CliRunner().invoke(main, ["label", *scope, *options])
    return result.exit_code, " ".join(result.output.split())


def test_a_sample_is_drawn_written_down_and_extended(project: SmallProject, tmp_path: Path) -> None:
    out = tmp_path / "label.html"
    asked = ("--dimension", "factuality", "--rater", "ana", "--out", str(out))
    code, output = label(project, *asked, "--sample", "10")
    assert code == 0
    assert "10 of 24 pairs" in output
    assert " 2 of them" in output
    first = pairs_in(out)
    assert len(first) == 10
    assert label(project, *asked)[0] == 0
    assert pairs_in(out) == first
    assert "16 of 24 pairs" in label(project, *asked, "--sample", "16")[1]
    assert set(first) < set(pairs_in(out))
    # In general all prompts are asked, those without a gold answer too.
    assert "36 of 36 pairs" in label(project, "--rater", "ana", "--out", str(out))[1]
    assert '"gold":null' in out.read_text()
    assert '"gold":"' not in out.read_text()


def pairs_in(page: Path) -> list[str]:
    work = json.loads(page.read_text().split('id="work">')[1].split("</script>")[0])
    return list(work["order"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--dimension", "beauty"), "expected one of factuality, calibration"),
        (("--host", "192.168.1.4"), "expected a secret in the environment"),
        (("--out", "x.html"), "give one --rater"),
        (("--rater", "\x1b[2J"), "the rater is"),
        (("--stratify", "judge"), "needs a --dimension"),
        (("--stratify", "judge", "--dimension", "factuality"), "nothing is stored"),
    ],
)
def test_what_cannot_be_labelled_is_said_before_anything_is_drawn(
    project: SmallProject, options: tuple[str, ...], words: str
) -> None:
    code, output = label(project, *options)
    assert code == 2
    assert words in output
    assert CliRunner().invoke(main, ["label"]).exit_code == 2


def test_a_token_comes_from_the_environment_and_has_to_be_long(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "short")
    code, output = label(project)
    assert (code, "expected at least 12" in output) == (2, True)
    assert "No such option" in label(project, "--token", "a token of sixteen")[1]


def test_labels_of_another_tool_become_the_sample_if_they_are_a_random_draw(
    project: SmallProject, tmp_path: Path
) -> None:
    texts = {
        entrant: {row["prompt_id"]: row["response"] for row in recorded_responses(entrant)}
        for entrant in ("careful", "sloppy")
    }
    path = tmp_path / "labels.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["prompt", "response_a", "response_b", "winner", "judge"])
        for prompt in bank_rows()[:3]:
            shown = [texts[each][prompt["prompt_id"]] for each in ("sloppy", "careful")]
            writer.writerow([prompt["text"], *shown, "b", "ana"])
    given = ["label", "import", "--config", str(project.config_path), "--format", "lmsys"]
    runner = CliRunner()
    assert runner.invoke(main, [*given, str(path)]).exit_code == 2
    scope = ["--mode", "headline", "--dimension", "factuality"]
    refused = runner.invoke(main, [*given, *scope, str(path)])
    assert refused.exit_code == 2
    assert "are unknown" in re.sub(r"\s+", " ", refused.output)
    for new in (3, 0):
        taken = runner.invoke(main, [*given, *scope, "--random", str(path)])
        assert f"3 votes, {new} new" in taken.output
