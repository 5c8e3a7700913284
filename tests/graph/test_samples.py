"""A tournament that answers every prompt twice, from its config to its report."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chat_server import MODEL, ChatServer, chat_server
from tests.projects import SmallProject, bank_rows, make_project
from tests.rows import table_rows
from tournament_assets.definitions import default_ledger_url
from tournament_assets.foundation.fingerprints import prompt_seed
from tournament_assets.graph.plain_runs import PlainRun
from tournament_assets.graph.table import row_of
from tournament_assets.ledger import Ledger
from tournament_assets.preparing.estimates import estimate_tournament
from tournament_assets.project.plan import load_plan, select_prompts
from tournament_assets.project.project_files import find_entrant_files
from tournament_assets.responses.local_responses import Generator, complete_responses
from tournament_assets.storage.tables import decode_parquet
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant
from tournament_assets.tournament.prompts import (
    GeneratedResponse,
    answer_key,
    parse_prompt_bank,
    sample_name,
)

N_PROMPTS = 4


def rows_of(project: SmallProject, table: str, name: str) -> list[dict[str, Any]]:
    folder = project.folder / "storage" / "small" / table
    payload = (folder / name / "pilot.parquet").read_bytes()
    return table_rows(row_of(table).row_type, decode_parquet(row_of(table).row_type, payload))


def lucky(body: dict[str, Any]) -> str:
    """Answer well or badly by the seed, unless it is greedy."""
    good = body["seed"] % 2 if body["temperature"] else 0
    label = "It is the red marker, because the tray was labelled." if good else "A zebra."
    return f"{label} {body['seed'] if body['temperature'] else 'always'}"


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[SmallProject, PlainRun, ChatServer]:
    project = make_project(tmp_path_factory.mktemp("samples"), dimensions=("factuality",))
    with chat_server() as chat:
        chat.reply = lucky
        served = {
            "loader": "openai_api",
            "base_url": chat.url,
            "model": MODEL,
            "max_new_tokens": 64,
        }
        recorded = yaml.safe_load(project.config_path.read_text())["entrants"][0]
        project.edit_config(
            generation={"n_samples": 2},
            entrants=[
                recorded,
                {**served, "entrant_id": "sampling", "temperature": 0.9},
                {**served, "entrant_id": "greedy"},
            ],
        )
        project.draw(recall=N_PROMPTS)
        made = project.tables()
    return project, made, chat


def directory_of(made: PlainRun) -> Path:
    return Path(made.metadata["run_artifacts", ""]["directory"])


def test_who_samples_is_asked_twice_with_seeds_of_its_own_and_who_does_not_once(
    played: tuple[SmallProject, PlainRun, ChatServer],
) -> None:
    project, made, chat = played
    sampling = [each.body["seed"] for each in chat.asked if each.body["temperature"]]
    assert len(sampling) == len(set(sampling)) == 2 * N_PROMPTS
    assert len(chat.asked) == 3 * N_PROMPTS
    assert made.metadata["entrant_requests", ""]["generated_now"] == 3 * N_PROMPTS
    answers = {}
    for name in ("careful", "sampling", "greedy"):
        rows = rows_of(project, "entrant_responses", name)
        assert len(rows) == 2 * N_PROMPTS
        assert [row["sample"] for row in rows] == [1, 2] * N_PROMPTS
        answers[name] = [
            (row["response"], other["response"])
            for row, other in zip(rows[::2], rows[1::2], strict=True)
        ]
    assert all(one == other for name in ("careful", "greedy") for one, other in answers[name])
    assert all(one != other for one, other in answers["sampling"])


def test_samples_meet_by_number_and_the_same_pair_is_asked_once(
    played: tuple[SmallProject, PlainRun, ChatServer],
) -> None:
    project, made, _ = played
    verdicts = rows_of(project, "judge_verdicts", "factuality")
    assert len(verdicts) == 3 * 2 * N_PROMPTS
    keys = [row[f"request_key_{shown}"] for row in verdicts for shown in ("ab", "ba")]
    # Whoever samples is in two of the three pairs; the pair of the other two is the same twice.
    assert len(set(keys)) == 2 * (2 * 2 * N_PROMPTS + N_PROMPTS)
    manifest = json.loads((directory_of(made) / "manifest.json").read_text())
    assert manifest["selected_prompts"] == N_PROMPTS
    assert manifest["samples_of_each_prompt"] == 2
    assert manifest["cost"]["by_dimension"]["factuality"]["requests"] == len(set(keys))


def test_ratings_count_prompts_and_luck_stands_apart(
    played: tuple[SmallProject, PlainRun, ChatServer],
) -> None:
    project, made, _ = played
    (elo, *_) = rows_of(project, "elo_ratings", "factuality")
    assert elo["n_decisive_matches"] <= 3 * N_PROMPTS
    panel = rows_of(project, "measures", "factuality")
    luck = {row["subject"]: row for row in panel if row["measure"] == "sampling_luck"}
    assert set(luck) == {"careful", "sampling", "greedy"}
    assert {row["unit"] for row in luck.values()} == {"points"}
    report = (directory_of(made) / "report.html").read_text()
    assert "sampling luck" in report
    assert f"{N_PROMPTS} prompts" in report
    assert "2 times" in report
    findings = rows_of(project, "prompt_audit", ".")
    names = {row["prompt_id"] for row in findings if row["prompt_id"]}
    assert names == {row["prompt_id"] for row in rows_of(project, "judge_verdicts", "factuality")}


def test_figures_stand_where_somebody_measured_them(
    played: tuple[SmallProject, PlainRun, ChatServer],
) -> None:
    _, made, _ = played
    asked = made.metadata["entrant_requests", ""]
    for name in ("sampling", "greedy"):
        assert asked[f"generation_seconds_{name}"] > 0
        assert asked[f"tokens_per_second_{name}"] > 0
    recorded = made.metadata["entrant_responses", "careful"]
    assert recorded["responses"] == 2 * N_PROMPTS
    figures = {"generation_seconds", "tokens_per_second", "peak_memory_gb", "batch_size"}
    assert not figures & recorded.keys()


def test_the_estimate_counts_every_sample(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    recorded = yaml.safe_load(project.config_path.read_text())["entrants"][0]
    bought = {
        "entrant_id": "bought",
        "loader": "anthropic_api",
        "model": "claude-opus-5-5",
    }
    counts = {}
    project.draw(recall=N_PROMPTS)
    for k in (1, 3):
        project.edit_config(generation={"n_samples": k}, entrants=[recorded, bought])
        estimate = estimate_tournament(load_plan(project.config_path, project.environment), "pilot")
        (responses,) = estimate.responses
        counts[k] = (responses.workload.distinct, estimate.workloads["factuality"].distinct)
    assert counts[1] == (N_PROMPTS, 2 * N_PROMPTS)
    assert counts[3] == (3 * N_PROMPTS, 3 * 2 * N_PROMPTS)


TINY: dict[str, Any] = {"weights": {"builtin": "tiny_olmo2"}, "max_new_tokens": 8}
HEADS = {
    "heads_depth": 3,
    "n_heads": 9,
    "security": {
        "folder": {"builtin": "tiny_olmo2_heads/security"},
        "files": "shard_{head}_lora.safetensors",
        "rank": 8,
    },
}
LOCAL: list[dict[str, Any]] = [
    {"entrant_id": "one_voice", "loader": "vanilla_hf", "temperature": 1.5, **TINY},
    {"entrant_id": "jury", "loader": "custom_poe", "temperature": 1.5, "beta": 0.2, **TINY}
    | {"hydra": HEADS},
]


class Killed(BaseException):
    """What ends a process at once: nobody catches it."""


class LedgerOfAKilledProcess(Ledger):
    """Keeps one batch; then the process is no more."""

    def keep_responses(
        self, entrant_fingerprint: str, responses: Sequence[tuple[str, GeneratedResponse]]
    ) -> int:
        super().keep_responses(entrant_fingerprint, responses)
        raise Killed


def begin(project: SmallProject, ledger: Ledger) -> list[GeneratedResponse]:
    """Generate the jury's responses to the pilot's prompts, outside of any run."""
    plan = load_plan(project.config_path, {})
    entrant = next(each for each in plan.config.entrants if each.entrant_id == "jury")
    assert isinstance(entrant, CustomPoeEntrant)
    bank = parse_prompt_bank([(f"bank:{n}", row) for n, row in enumerate(bank_rows())])
    return complete_responses(
        entrant,
        files=find_entrant_files(entrant, plan.project),
        prompts=select_prompts(plan.config, "pilot", bank),
        ledger=ledger,
        config=plan.config.generation,
        log=lambda message: None,
        generator=Generator("cpu"),
        kernels=Path("kernels"),
    ).responses


def test_models_on_this_machine_answer_twice_and_a_killed_run_goes_on(tmp_path: Path) -> None:
    """From the prompts to the ratings: every sample is its own, and the same when drawn again."""
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    n_prompts = 3
    project.edit_config(
        generation={"n_samples": 2, "batch_size": 2},
        entrants=LOCAL,
    )
    project.draw(recall=n_prompts)
    url = default_ledger_url(project.folder)
    (project.folder / "ledger").mkdir()
    with closing(LedgerOfAKilledProcess(url)) as ledger, pytest.raises(Killed):
        begin(project, ledger)
    with closing(Ledger(f"sqlite:///{tmp_path / 'another.sqlite'}")) as ledger:
        undisturbed = begin(project, ledger)
    made = project.tables("elo_ratings")
    # Two entrants, two samples; the batch of two that was kept is not generated again.
    assert generated_in(made) == 2 * 2 * n_prompts - 2
    for name in ("one_voice", "jury"):
        rows = rows_of(project, "entrant_responses", name)
        assert [row["sample"] for row in rows] == [1, 2] * n_prompts
        for first, second in zip(rows[::2], rows[1::2], strict=True):
            assert second["prompt_id"] == first["prompt_id"]
            assert first["response"] != second["response"]
            for row in (first, second):
                told = json.loads(row["diagnostics"])
                assert told["seed"] == prompt_seed(sample_name(row["prompt_id"], row["sample"]))
    resumed = {(row["prompt_id"], row["sample"]): row["response"] for row in rows}
    assert resumed == {answer_key(each): each.text for each in undisturbed}
    assert len(rows_of(project, "judge_verdicts", "factuality")) == 2 * n_prompts
    ratings = rows_of(project, "elo_ratings", "factuality")
    assert {row["entrant_id"] for row in ratings} == {"one_voice", "jury"}
    assert all(row["n_decisive_matches"] <= n_prompts for row in ratings)
    assert generated_in(project.tables("entrant_responses")) == 0


def generated_in(made: PlainRun) -> int:
    return sum(
        each["generated_now"]
        for (asset, _), each in made.metadata.items()
        if asset == "entrant_responses"
    )
