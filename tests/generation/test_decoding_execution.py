"""However rounds are executed, the same tokens are written: recorded, compiled, rows dropped.

Compiled by what torch brings along for a CPU; a GPU's compiler makes other kernels of the regions.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch

from tournament_assets.generation.hydra.decoded import Decoded, DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.decoding import (
    DecodedBatch,
    Execution,
    Replay,
    choose_rows,
    decode,
)
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.models.base_models import decoding_threads

from .hydra_builders import (
    RAGGED,
    ask,
    build_adapters,
    build_model,
    poe_settings,
    put_heads_on,
    solo_settings,
)

PROMPTS = [*RAGGED, *ask((4, 4), (1, 2, 3), (9,), (6, 2), (3, 1, 4, 1, 5), seed=7)]
ENDS = (3, 6, 7, 14)
WAYS = {
    "jury": poe_settings(max_new_tokens=14, eos_ids=ENDS),
    "greedy jury": poe_settings(max_new_tokens=14, temperature=None, eos_ids=ENDS),
    "jury ahead": poe_settings(max_new_tokens=14, gamma=3, eos_ids=ENDS),
    "one head": solo_settings(DecodingMode.BYPASS_JURY, max_new_tokens=14, eos_ids=ENDS),
    "base": solo_settings(DecodingMode.BASE, max_new_tokens=14, eos_ids=ENDS),
    "greedy base": solo_settings(
        DecodingMode.BASE, max_new_tokens=14, temperature=None, eos_ids=ENDS
    ),
}
each_way = pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS)
DROPPING = Execution(drops_finished=True)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with decoding_threads(1), torch.inference_mode():
        yield
    torch.compiler.reset()


@pytest.fixture(scope="module")
def hydra() -> HydraModel:
    model = build_model(n_layers=4)
    return put_heads_on(model, build_adapters(model))


def write(
    hydra: HydraModel,
    settings: DecodingSettings,
    execution: Execution | None = None,
    *,
    n_prompts: int = len(PROMPTS),
    **arguments: Any,
) -> DecodedBatch:
    execution = execution or Execution()
    return decode(
        hydra,
        PROMPTS[:n_prompts],
        settings,
        n_rows=len(PROMPTS),
        prompt_length=8,
        execution=execution,
        **arguments,
    )


def assert_same(one: DecodedBatch, other: DecodedBatch) -> None:
    """Tokens, heads and flags to the bit; entropies and witnesses but for rounding."""
    assert [facts(each) for each in one.responses] == [facts(each) for each in other.responses]
    for left, right in zip(one.responses, other.responses, strict=True):
        assert left.mean_entropy == pytest.approx(right.mean_entropy, abs=1e-5)
    torch.testing.assert_close(one.witnesses, other.witnesses, atol=1e-5, rtol=0)


def facts(response: Decoded) -> tuple[object, ...]:
    verified = [(each.draft, each.resampled, each.votes) for each in response.verified or ()]
    return response.token_ids, response.finish_reason, response.head, verified


@each_way
def test_dropping_finished_rows_changes_no_token_and_no_flag(
    hydra: HydraModel, settings: DecodingSettings
) -> None:
    whole, dropped = write(hydra, settings), write(hydra, settings, DROPPING)
    lengths = {len(response.token_ids) for response in whole.responses}
    assert len(lengths) > 1  # they are complete at different times
    assert_same(dropped, whole)
    assert dropped.n_row_rounds < whole.n_row_rounds


def test_rows_are_read_until_half_of_them_is_enough(hydra: HydraModel) -> None:
    settings = WAYS["jury"]
    whole, dropped = write(hydra, settings), write(hydra, settings, DROPPING)
    lengths = [len(response.token_ids) for response in whole.responses]
    assert whole.n_row_rounds == len(PROMPTS) * max(lengths)
    expected, size = 0, len(PROMPTS)
    for number in range(max(lengths)):
        n_open = sum(length > number for length in lengths)
        size = min(each for each in (1, 2, 3, 5, 9) if each >= n_open and each <= size)
        expected += size
    assert dropped.n_row_rounds == expected
    assert sum(lengths) <= expected < 0.7 * whole.n_row_rounds


def test_rows_that_only_fill_a_batch_up_are_dropped_after_its_first_round(
    hydra: HydraModel,
) -> None:
    whole = write(hydra, WAYS["jury"], n_prompts=2)
    dropped = write(hydra, WAYS["jury"], DROPPING, n_prompts=2)
    assert_same(dropped, whole)
    lengths = [len(response.token_ids) for response in whole.responses]
    assert dropped.n_row_rounds <= len(PROMPTS) + 2 * (max(lengths) - 1)


def test_the_rows_that_are_kept_are_those_needed_filled_up_to_a_half() -> None:
    assert choose_rows([True, False, True, False]) == [0, 2]
    assert choose_rows([False, False, True, True, True]) == [2, 3, 4]
    assert choose_rows([False, True, True, True, False, False, False, False]) == [0, 1, 2, 3]
    assert choose_rows([True] * 3 + [False]) == [0, 1, 2, 3]
    assert choose_rows([False] * 7 + [True]) == [7]
    assert choose_rows([False] * 4) == [0]


@pytest.mark.parametrize("way", ["jury ahead", "greedy jury", "base"])
def test_compiled_regions_write_the_same_tokens(hydra: HydraModel, way: str) -> None:
    compiled = Execution(compiler="aot_eager", drops_finished=True)
    assert_same(write(hydra, WAYS[way], compiled), write(hydra, WAYS[way]))


class CountingCompiler:
    """Compiles nothing, and counts what it was given and how often that is called."""

    def __init__(self) -> None:
        self.n_compiled = 0
        self.n_calls = 0

    def __call__(
        self, graph: torch.fx.GraphModule, _example_inputs: list[torch.Tensor]
    ) -> Callable[..., Any]:
        self.n_compiled += 1

        def call(*arguments: Any) -> Any:
            self.n_calls += 1
            return graph(*arguments)

        return call


class FakeRecorder:
    """Stands for a CUDA graph: what is recorded must meet no shape for the first time."""

    def __init__(self, compiler: CountingCompiler) -> None:
        self._compiler = compiler
        self.n_aside = 0
        self.calls_recorded: list[int] = []
        self.n_replayed = 0

    def play_aside(self, play: Callable[[], None]) -> None:
        self.n_aside += 1
        play()

    def record(self, play: Callable[[], None]) -> Replay:
        """Nothing runs while a graph is recorded, so the replays play instead."""

        def replay() -> None:
            n_compiled, n_calls = self._compiler.n_compiled, self._compiler.n_calls
            play()
            assert self._compiler.n_compiled == n_compiled
            self.calls_recorded.append(self._compiler.n_calls - n_calls)
            self.n_replayed += 1

        return replay


def test_what_is_recorded_is_compiled_before_and_consists_of_the_compiled_regions(
    hydra: HydraModel,
) -> None:
    """So it is after each halving of the rows, too."""
    compiler = CountingCompiler()
    recorder = FakeRecorder(compiler)
    execution = Execution(captured=True, compiler=compiler, drops_finished=True)
    settings = WAYS["jury"]
    written = write(hydra, settings, execution, recorder=recorder)
    whole = write(hydra, settings)
    assert_same(written, whole)
    rounds = max(len(response.token_ids) for response in whole.responses)
    assert recorder.n_aside > 2  # of the whole batch, and of two smaller ones at least
    assert recorder.n_aside + recorder.n_replayed == rounds
    # In each layer one region of attention, two that add up, and one of the MLP.
    assert set(recorder.calls_recorded) == {4 * 4}


def test_a_region_is_compiled_once_for_all_layers_of_a_shape(hydra: HydraModel) -> None:
    compiler = CountingCompiler()
    settings = solo_settings(DecodingMode.BASE, max_new_tokens=5)
    write(hydra, settings, Execution(compiler=compiler))
    # Two layers of the trunk and its half of a third; the heads' MLPs have an axis more.
    assert compiler.n_compiled == 5
    once = compiler.n_compiled
    write(hydra, settings, Execution(compiler=compiler))
    assert compiler.n_compiled == once


def test_a_response_tells_what_may_have_rounded_it() -> None:
    assert Execution(captured=True).described == {}
    assert Execution(compiler="inductor").described == {"compiled": True}
    assert DROPPING.described == {"drops_finished": True}
    assert not [one for one, other in pairwise([Execution(), DROPPING]) if one == other]
