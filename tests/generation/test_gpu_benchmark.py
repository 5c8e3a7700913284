"""What `make gpu` does, in small and on a CPU; the page it writes says what was not run."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.generation import NOT_RUN, Budget, main
from benchmarks.generation_checks import (
    law_p_value,
    like_eager,
    likeness,
    random_prompts,
    same_tokens,
    speak,
)
from benchmarks.generation_models import PRESETS, build_models
from tests.generation.hydra_builders import (
    RAGGED,
    CountingRecorder,
    answer,
    build_adapters,
    build_model,
    poe_settings,
    put_heads_on,
)
from tournament_assets.generation.hydra.decoding import CapturedRounds

PAGE = Path(__file__).parents[2] / "benchmarks" / "results" / "gpu.md"


def cells(page: str) -> dict[tuple[str, ...], list[str]]:
    """Return what a page's tables hold, by the names at the beginning of each line."""
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("|")]
    found: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        n_names = 1 if len(row) == 2 else 2
        if not set("".join(row)) <= set("|- ") and row[0] not in ("check", "batch"):
            found[tuple(row[:n_names])] = row[n_names:]
    return found


def run(monkeypatch: pytest.MonkeyPatch, page: Path, *options: str) -> str:
    arguments = ["--preset", "tiny", "--device", "cpu", "--checks", "--repeats", "1"]
    monkeypatch.setattr(
        sys, "argv", ["generation", *arguments, "--batch", "2", *options, "--markdown", str(page)]
    )
    main()
    return page.read_text(encoding="utf-8")


def test_the_committed_page_says_not_run_wherever_a_number_would_stand() -> None:
    found = cells(PAGE.read_text(encoding="utf-8"))
    ways = [key for key in found if len(key) == 2]
    assert {batch for batch, _ in ways} == {"1", "8", "32", "64"}
    assert len(ways) == 4 * 5
    assert len(found) - len(ways) == 2 + 4  # two checks of the law, one of each batch
    assert {cell for row in found.values() for cell in row} == {NOT_RUN}


def test_a_dry_run_on_a_cpu_checks_and_measures_to_its_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("benchmarks.generation.N_DRAWS", 2000)
    found = cells(run(monkeypatch, tmp_path / "gpu.md", "--new-tokens", "3"))
    for way in ("generate", "base", "one head", "full PoE"):
        speed, ratio, *_ = found["2", way]
        assert float(speed) > 0
        assert float(ratio) > 0
    checks = {key[0]: row[0] for key, row in found.items() if len(key) == 1}
    (law,) = (value for name, value in checks.items() if name.startswith("law of the CPU"))
    assert float(law.removeprefix("p = ")) > 1e-4
    same = [value for name, value in checks.items() if "tokens as" in name]
    assert same == ["100.00%", NOT_RUN]  # as on the CPU, and what only a GPU can do


def test_what_a_budget_leaves_out_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = run(monkeypatch, tmp_path / "gpu.md", "--budget", "0")
    assert {cell for row in cells(page).values() for cell in row} == {NOT_RUN}
    assert "The budget of 0.0 s ended" in page
    budget = Budget(1e6, time.perf_counter())
    assert budget.has_room_for(1e5)
    assert not budget.was_short
    assert not budget.has_room_for(1.1e6)
    assert budget.was_short


def test_a_law_that_is_not_the_jurys_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import generation_checks

    monkeypatch.setattr(generation_checks, "TEMPERATURE", 0.7)
    settings = generation_checks.speak(2)
    monkeypatch.setattr(generation_checks, "TEMPERATURE", 0.98)
    monkeypatch.setattr(generation_checks, "speak", lambda n_tokens: settings)
    assert law_p_value(torch.device("cpu"), n_draws=4000) < 1e-6


def test_tokens_count_as_the_same_up_to_the_first_that_differs() -> None:
    model = build_model()
    hydra = put_heads_on(model, build_adapters(model))
    whole = answer(hydra, RAGGED, poe_settings())
    assert same_tokens(whole, whole) == 1
    shorter = answer(hydra, RAGGED, poe_settings(max_new_tokens=6))
    assert same_tokens(whole, shorter) == 6 / 8
    assert PRESETS["7b"].batches == (1, 8, 32, 64)


def test_captured_rounds_may_differ_from_eager_ones_by_rounding_alone() -> None:
    model, hydra = build_models(PRESETS["tiny"])
    captured = CapturedRounds(CountingRecorder, compiler="eager")
    same = like_eager(hydra, captured, n_tokens=12, batch=8, length=8)
    assert (same.share, same.steps, same.is_rounding) == (1, 0, True)
    prompts = random_prompts(8, n_tokens=hydra.n_tokens, length=8)
    whole = answer(hydra, prompts, replace(speak(12), temperature=None), prompt_length=8)
    (one, two, right, *rest), other = whole[3].token_ids, 5
    wrong = replace(whole[3], token_ids=(one, two, other, *rest))
    assert right != other
    for is_as_good in (False, True):
        if is_as_good:
            model.lm_head.weight[other] = model.lm_head.weight[right]
        found = likeness(hydra, prompts, whole, [*whole[:3], wrong, *whole[4:]])
        assert found.share == pytest.approx(1 - 10 / 96)
        assert found.is_rounding == is_as_good
