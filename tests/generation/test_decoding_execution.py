"""However rounds are executed, the same tokens are written: recorded or compiled.

Compiled by what torch brings along for a CPU; a GPU's compiler makes other kernels of the regions.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.decoded_batches import DecodedBatch, decode
from benchmarks.generation_checks import random_prompts
from benchmarks.generation_models import N_HEADS, PRESETS, build_models, bytes_per_step
from tournament_assets.generation.hydra import drafts, hydra_model
from tournament_assets.generation.hydra.decoded import Decoded, DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.decoding import (
    CapturedRounds,
    DecodingQueue,
    Finished,
    Replay,
    start_rounds,
)
from tournament_assets.generation.hydra.hydra_model import HydraModel, Regions
from tournament_assets.generation.models.base_models import decoding_threads
from tournament_assets.generation.models.chat_prompts import EncodedPrompt, padded_length

from .hydra_builders import (
    RAGGED,
    CountingRecorder,
    ask,
    build_adapters,
    build_model,
    poe_settings,
    put_heads_on,
    solo_settings,
)

PROMPTS = [*RAGGED, *ask((4, 4), (1, 2, 3), (9,), (6, 2), (3, 1, 4, 1, 5), seed=7)]
ROOT = Path(__file__).parents[2]
ENDS = (3, 6, 7, 14)
WAYS = {
    "jury": poe_settings(max_new_tokens=14, eos_ids=ENDS),
    "greedy jury": poe_settings(max_new_tokens=14, temperature=None, eos_ids=ENDS),
    "base": solo_settings(DecodingMode.BASE, max_new_tokens=14, eos_ids=ENDS),
    "one head": solo_settings(DecodingMode.BYPASS_JURY, max_new_tokens=14, eos_ids=ENDS),
}


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
    **arguments: Any,
) -> DecodedBatch:
    return decode(hydra, PROMPTS, settings, n_rows=len(PROMPTS), prompt_length=8, **arguments)


def assert_same(one: DecodedBatch, other: DecodedBatch) -> None:
    """Tokens, heads and flags to the bit; entropies and witnesses but for rounding."""
    assert [facts(each) for each in one.responses] == [facts(each) for each in other.responses]
    for left, right in zip(one.responses, other.responses, strict=True):
        entropies = [[token.entropy for token in each.verified or ()] for each in (left, right)]
        assert entropies[0] == pytest.approx(entropies[1], abs=1e-5)
    torch.testing.assert_close(one.witnesses, other.witnesses, atol=1e-5, rtol=0)


def facts(response: Decoded) -> tuple[object, ...]:
    verified = [(each.draft, each.resampled, each.votes) for each in response.verified or ()]
    return response.token_ids, response.finish_reason, response.head, verified


@pytest.mark.parametrize("way", WAYS)
def test_compiled_regions_write_the_same_tokens(hydra: HydraModel, way: str) -> None:
    captured = CapturedRounds(CountingRecorder, compiler="aot_eager")
    assert_same(write(hydra, WAYS[way], captured=captured), write(hydra, WAYS[way]))


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
    compiler = CountingCompiler()
    recorder = FakeRecorder(compiler)
    settings = WAYS["jury"]
    captured = CapturedRounds(lambda device: recorder, compiler=compiler)
    written = write(hydra, settings, captured=captured)
    whole = write(hydra, settings)
    assert_same(written, whole)
    rounds = max(len(response.token_ids) for response in whole.responses)
    assert recorder.n_aside == 1
    assert recorder.n_aside + recorder.n_replayed == rounds
    # In each layer one region of attention, two that add up, and one of the MLP.
    assert set(recorder.calls_recorded) == {4 * 4}


@pytest.mark.parametrize("way", WAYS)
def test_an_entrant_records_its_rounds_once_however_many_batches_it_has(
    hydra: HydraModel, way: str
) -> None:
    settings = WAYS[way]
    recorder = CountingRecorder()
    captured = CapturedRounds(lambda device: recorder, compiler="eager")
    batches = [PROMPTS[start:] + PROMPTS[:start] for start in (0, 3, 5)]
    shape: dict[str, Any] = {"n_rows": len(PROMPTS), "prompt_length": 8}
    for n_batches, batch in enumerate([*batches, batches[0][:2]]):
        written = decode(hydra, batch, settings, captured=captured, **shape)
        expected = decode(hydra, batch, settings, **shape)
        assert_same(written, expected)
        assert recorder.n_recorded == 1, n_batches
    decode(hydra, PROMPTS, settings, n_rows=16, prompt_length=8, captured=captured)
    assert recorder.n_recorded == 2


@pytest.mark.parametrize("is_captured", [False, True])
@pytest.mark.parametrize("n_unseen", [1, 5])
@pytest.mark.parametrize("way", WAYS)
def test_a_prompt_that_takes_another_ones_row_is_answered_as_alone(
    hydra: HydraModel, way: str, n_unseen: int, is_captured: bool
) -> None:
    settings = WAYS[way]
    lengths = sorted((8 if len(each.ids) > 2 else 4 for each in PROMPTS), reverse=True)
    prompts = sorted(PROMPTS, key=lambda each: len(each.ids) <= 2)
    recorder = CountingRecorder()
    captured = CapturedRounds(lambda device: recorder, compiler="eager") if is_captured else None
    queue = DecodingQueue(
        hydra, prompts, settings, n_rows=3, lengths=lengths, captured=captured, n_unseen=n_unseen
    )
    done: list[Finished] = []
    while new := queue.advance():
        done += new
    assert sorted(each.index for each in done) == list(range(len(prompts)))
    for each in done:
        alone = decode(
            hydra, [prompts[each.index]], settings, n_rows=3, prompt_length=lengths[each.index]
        )
        answered = DecodedBatch((each.response,), each.witness[None])
        assert_same(answered, alone)
    assert recorder.n_recorded == is_captured
    assert len({len(each.response.token_ids) for each in done}) > 2


class CountedRounds:
    """Rounds whose responses are as long as their prompt's first token says."""

    def __init__(self, prompts: Sequence[EncodedPrompt]) -> None:
        self.heads = torch.zeros(len(prompts), dtype=torch.long)
        self.witnesses = torch.zeros(len(prompts), 1)
        self.n_rounds = 0
        self._ends = [prompt.ids[0] for prompt in prompts]
        self._lengths = list(self._ends)

    def n_slots(self, number: int) -> int:
        return number

    def play(self, n_slots: int) -> None:  # noqa: ARG002
        self.n_rounds += 1

    def open_rows(self) -> list[bool]:
        return [end > self.n_rounds for end in self._ends]

    def read(self, rows: Sequence[int]) -> list[Any]:
        return [((1,) * self._lengths[row], None) for row in rows]

    def admit(self, rows: torch.Tensor, ids: torch.Tensor, *inputs: object) -> None:  # noqa: ARG002
        self._lengths[int(rows)] = int(ids[0, 0])
        self._ends[int(rows)] = self.n_rounds + int(ids[0, 0])


class CountedCapture(CapturedRounds):
    """Counts instead of capturing."""

    def start(self, model: Any, prompts: Sequence[EncodedPrompt], *_: Any, **__: Any) -> Any:  # noqa: ARG002
        self.rounds = CountedRounds(prompts)
        return self.rounds, self.rounds.play


def read_column(path: str, name: str) -> list[Any]:
    return [json.loads(line)[name] for line in (ROOT / path).read_text("utf-8").splitlines()]


@pytest.mark.parametrize("n_unseen", [1, 16], ids=["CPU", "GPU"])
def test_few_rows_are_computed_beyond_those_that_responses_need(n_unseen: int) -> None:
    """Prompts of the bank, and responses as long as recorded ones."""
    texts = read_column("tournament_assets/data/prompt_bank.jsonl", "text")
    recorded = read_column("tests/golden/inputs/demo_responses.jsonl", "response_tokens")
    n_tokens = recorded[: len(texts)]
    lengths = sorted((padded_length(len(text) // 2) for text in texts), reverse=True)
    model: Any = SimpleNamespace(
        n_adapters=0,
        n_heads=0,
        n_tokens=100,
        n_parameters=1,
        device=torch.device("cpu"),
        config=SimpleNamespace(max_position_embeddings=1000),
    )
    captured = CountedCapture()
    queue = DecodingQueue(
        model,
        [EncodedPrompt(ids=(n,), seed=0) for n in n_tokens],
        solo_settings(DecodingMode.BASE, max_new_tokens=max(n_tokens)),
        n_rows=16,
        lengths=lengths,
        captured=captured,
        n_unseen=n_unseen,
    )
    done: dict[int, int] = {}
    while new := queue.advance():
        done |= {each.index: len(each.response.token_ids) for each in new}
    assert [done[index] for index in range(len(texts))] == n_tokens
    assert 16 * captured.rounds.n_rounds / sum(n_tokens) <= 1.3
    # In batches that end with their longest response:
    by_length = [[*group] for _, group in groupby(range(len(texts)), key=lengths.__getitem__)]
    longest = [
        max(n_tokens[index] for index in group[start : start + 16])
        for group in by_length
        for start in range(0, len(group), 16)
    ]
    assert 16 * sum(longest) / sum(n_tokens) > 1.75


@pytest.mark.parametrize("way", WAYS)
def test_long_prompts_are_read_in_parts_and_mean_the_same(
    hydra: HydraModel, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write(hydra, WAYS[way])
    monkeypatch.setattr(drafts, "_TOKENS_AT_ONCE", 3 * 3 * len(PROMPTS))
    assert_same(write(hydra, WAYS[way]), whole)


def test_a_region_is_compiled_once_for_all_layers_of_a_shape(hydra: HydraModel) -> None:
    compiler = CountingCompiler()
    settings = solo_settings(DecodingMode.BASE, max_new_tokens=5)
    write(hydra, settings, captured=CapturedRounds(CountingRecorder, compiler=compiler))
    # Two layers of the trunk and its half of a third; the heads' MLPs have an axis more.
    assert compiler.n_compiled == 5
    once = compiler.n_compiled
    write(hydra, settings, captured=CapturedRounds(CountingRecorder, compiler=compiler))
    assert compiler.n_compiled == once


class KernelCounter(TorchDispatchMode):
    """Counts the kernels that run in it, and the bytes that they read and write."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it so
        self.n_kernels = 0
        self.n_bytes = 0
        self._is_inside = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        made = func(*args, **(kwargs or {}))
        is_written = any(
            each.alias_info is not None and each.alias_info.is_write
            for each in func._schema.arguments
        )
        is_view = not is_written and storages(made) <= storages(args)
        if not (self._is_inside or is_view or func in MAKE_ROOM):
            moved = args[-1] if is_written else made
            given = args[1:] if func in INDEXED else args
            self._add((given, kwargs), moved)
        return made

    def _add(self, given: object, made: object) -> None:
        self.n_kernels += 1
        self.n_bytes += sum(each.nbytes for each in tensors((given, made)))

    def as_one(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Count a function as one kernel, as a GPU has it."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._is_inside = True
            made = function(*args, **kwargs)
            self._is_inside = False
            self._add((args, kwargs), made)
            return made

        return call


def tensors(tree: object) -> list[torch.Tensor]:
    return [each for each in tree_leaves(tree) if isinstance(each, torch.Tensor)]


def storages(tree: object) -> set[int]:
    return {each.untyped_storage()._cdata for each in tensors(tree)}


aten = torch.ops.aten
MAKE_ROOM = {aten.empty.memory_format, aten.empty_like.default}
INDEXED = {  # Of their first argument they touch only what is asked for.
    aten.scatter_.src,
    aten.index_copy_.default,
    aten.embedding.default,
    aten.gather.default,
    aten.index.Tensor,
}


@pytest.mark.parametrize(
    ("way", "batch", "n_eager", "n_fused", "bytes_ratio"),
    [
        ("base", 1, 1903, 495, 1.01),
        ("base", 64, 1903, 495, 1.07),
        ("one head", 64, 1921, 513, 1.08),
        ("jury", 1, 1976, 568, 1.01),
        ("jury", 64, 1976, 568, 1.17),
    ],
)
def test_a_step_starts_few_kernels_that_move_little_but_weights_and_caches(
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    batch: int,
    n_eager: int,
    n_fused: int,
    bytes_ratio: float,
) -> None:
    """Of a model of OLMo-2-7B's shape with nine heads and 192 slots, without its memory."""
    preset = replace(PRESETS["7b"], device="meta")
    _, hydra = build_models(preset)
    prompts = random_prompts(batch, n_tokens=preset.n_tokens, length=64)
    settings = replace(WAYS[way], max_new_tokens=128)
    eager, fused = KernelCounter(), KernelCounter()
    regions = Regions(*(fused.as_one(getattr(Regions(), each.name)) for each in fields(Regions)))
    for counter, model in ((eager, hydra), (fused, hydra.with_regions(regions))):
        rounds = start_rounds(model, prompts, settings, prompt_length=64)
        with monkeypatch.context() as patch, counter:
            for name in ("sdpa_attention_forward", "_project_exactly"):
                patch.setattr(hydra_model, name, counter.as_one(getattr(hydra_model, name)))
            rounds.play(192)
    jury = N_HEADS if "jury" in way else 1
    voices = {"base": 0, "one head": batch}.get(way, N_HEADS)
    needed = bytes_per_step(preset, batch=batch, n_slots=192, jury=jury, voices=voices)
    assert eager.n_kernels <= n_eager
    assert fused.n_kernels <= n_fused
    assert fused.n_bytes <= bytes_ratio * needed
