"""A round of decoding can be recorded: it never waits, stays in place and hides nothing in Python.

A CUDA graph replays the kernels of a recorded round and nothing else. Without a GPU the same is
tried with what torch can trace on a CPU.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from tournament_assets.generation.hydra.decoded import DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.decoding import start_rounds
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.rounds import Rounds, VerifiedRound, round_up, verify
from tournament_assets.generation.models.chat_prompts import EncodedPrompt

from .hydra_builders import (
    RAGGED,
    build_adapters,
    build_model,
    poe_settings,
    put_heads_on,
    solo_settings,
)

PROMPT_LENGTH = 8
WAYS = {
    "jury": poe_settings(max_new_tokens=6, eos_ids=(6,)),
    "greedy jury": poe_settings(max_new_tokens=6, temperature=None),
    "one head": solo_settings(DecodingMode.BYPASS_JURY, max_new_tokens=6, eos_ids=(6,)),
    "base": solo_settings(DecodingMode.BASE, max_new_tokens=6, temperature=None),
}
each_way = pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS)


pytestmark = pytest.mark.usefixtures("inference")


@pytest.fixture(scope="module")
def hydra() -> HydraModel:
    model = build_model()
    return put_heads_on(model, build_adapters(model))


def start(
    hydra: HydraModel, settings: DecodingSettings, prompts: Sequence[EncodedPrompt] = RAGGED
) -> Rounds:
    return start_rounds(hydra, prompts, settings, prompt_length=PROMPT_LENGTH)


def play_all(rounds: Rounds, play: Callable[[int], object], n_rounds: int) -> None:
    for number in range(n_rounds):
        play(rounds.n_slots(number))


def tensors_of(thing: object) -> list[torch.Tensor]:
    """All tensors that an object holds, also in objects that it holds."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, dict):
        inside: Sequence[object] = list(thing.values())
    elif isinstance(thing, tuple | list):
        inside = thing
    elif type(thing).__module__.startswith("tournament_assets.generation"):
        slots = getattr(type(thing), "__slots__", None)
        inside = [getattr(thing, name) for name in slots] if slots else list(vars(thing).values())
    else:
        return []
    return [tensor for part in inside for tensor in tensors_of(part)]


def assert_same(one: Rounds, other: Rounds) -> None:
    """Tokens, drafts, flags and votes to the bit; numbers but for the rounding of other kernels."""
    torch.testing.assert_close(one.witnesses, other.witnesses, atol=1e-5, rtol=0)
    for (tokens, left), (same_tokens, right) in zip(one.read(), other.read(), strict=True):
        assert tokens == same_tokens
        for found, wanted in zip(left or (), right or (), strict=True):
            numbers = {name: getattr(found, name) for name in ("entropy", "overlap", "suppression")}
            assert numbers == pytest.approx({n: getattr(wanted, n) for n in numbers}, abs=1e-5)
            assert found == replace(wanted, **numbers)


class NoWaiting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses what a GPU would have to be waited for."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero"), name
        return func(*args, **(kwargs or {}))


@each_way
def test_a_round_asks_for_no_value_that_only_the_device_knows(
    hydra: HydraModel, settings: DecodingSettings
) -> None:
    rounds = start(hydra, settings)
    with NoWaiting():  # type: ignore[no-untyped-call]
        play_all(rounds, rounds.play, 3)
        with pytest.raises(AssertionError, match="_local_scalar_dense"):
            bool(rounds.witnesses.isnan().any())  # this does, and is seen to


class MasksOfAttention(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Collects the masks that attention is given, and counts what makes one."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.masks: list[torch.Tensor] = []
        self.n_made = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        self.n_made += name.startswith("masked_fill")
        if name == "scaled_dot_product_attention":
            self.masks.append(args[3])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("way", "n_masks"), [("jury", 2), ("one head", 1)])
def test_the_mask_is_made_once_a_round_and_not_in_every_layer(way: str, n_masks: int) -> None:
    """One for the trunk, and the same once more for each head; attention adds it as it is."""
    model = build_model(n_layers=6)
    rounds = start(put_heads_on(model, build_adapters(model, heads_depth=3)), WAYS[way])
    with MasksOfAttention() as seen:
        rounds.play(rounds.n_slots(0))
    assert len(seen.masks) == 6
    assert len({mask.data_ptr() for mask in seen.masks}) == n_masks
    assert {mask.dtype for mask in seen.masks} == {torch.float32}
    assert seen.n_made == 1


@each_way
def test_what_a_round_changes_stays_where_it_is(
    hydra: HydraModel, settings: DecodingSettings
) -> None:
    rounds = start(hydra, settings)
    before = [tensor.data_ptr() for tensor in tensors_of(rounds)]
    assert len(before) > 20
    play_all(rounds, rounds.play, 3)
    assert [tensor.data_ptr() for tensor in tensors_of(rounds)] == before


@each_way
def test_a_recorded_round_replayed_yields_the_same(
    hydra: HydraModel, settings: DecodingSettings
) -> None:
    """Tracing plays the first round; the others replay its kernels, without any Python of ours."""
    played, replayed = start(hydra, settings), start(hydra, settings)
    play_all(played, played.play, settings.max_new_tokens)
    n_slots = replayed.n_slots(0)
    graph = make_fx(lambda: replayed.play(n_slots))()
    for number in range(1, settings.max_new_tokens):
        assert replayed.n_slots(number) == n_slots
        graph()
    assert_same(replayed, played)


@pytest.mark.parametrize("way", ["jury", "one head"])
def test_a_round_compiles_into_one_graph(hydra: HydraModel, way: str) -> None:
    settings = WAYS[way]
    played, compiled = start(hydra, settings), start(hydra, settings)
    play_all(played, played.play, 3)
    torch.compiler.reset()
    play_all(compiled, torch.compile(compiled.play, fullgraph=True, backend="eager"), 3)
    assert_same(compiled, played)


def test_rounds_after_the_last_add_nothing(hydra: HydraModel) -> None:
    """So a GPU need not be asked after every round whether it was the last."""
    settings = poe_settings(max_new_tokens=20, eos_ids=(2, 3, 6, 7))
    rounds = start(hydra, settings)
    n_rounds = 0
    while any(rounds.open_rows()):
        rounds.play(rounds.n_slots(n_rounds))
        n_rounds += 1
    written = rounds.read()
    assert n_rounds < 20
    for number in range(n_rounds, 20):
        rounds.play(rounds.n_slots(number))
    assert rounds.read() == written


def test_attention_looks_at_as_many_slots_as_a_round_can_reach() -> None:
    model = build_model()
    rounds = start(put_heads_on(model, build_adapters(model)), poe_settings(max_new_tokens=60))
    assert [rounds.n_slots(number) for number in (0, 24, 25, 56, 57)] == [32, 32, 64, 64, 96]
    assert round_up(256, device=torch.device("cuda")) == 256
    assert round_up(257, device=torch.device("cuda")) == 512


def test_a_draft_that_the_verifiers_do_not_want_is_replaced() -> None:
    """Greedily, where all verifiers want token 0."""
    drafts = torch.tensor([0, 1, 2])
    verdict = verify(
        drafts,
        torch.nn.functional.one_hot(drafts, 3).double(),
        verifiers=torch.tensor([10.0, 2.0, 0.0], dtype=torch.float64).expand(3, 3),
        votes=torch.zeros(3, 3, dtype=torch.long),
        beta=1.0,
        temperature=None,
        uniforms=torch.full((3, 2), 0.5, dtype=torch.float64),
    )
    assert verdict.accepted.tolist() == [True, False, False]
    assert not verdict.tokens.any()
    rounds = VerifiedRound(*[column[None] for column in verdict.columns])
    read = rounds.read(torch.tensor([[True, True, False]]))
    assert [(token.draft, token.token, token.resampled) for token in read] == [
        (0, 0, False),
        (1, 0, True),
    ]
    assert read[0].votes == (0, 0, 0)


def test_verdicts_of_several_rounds_are_read_prompt_by_prompt() -> None:
    rounds = VerifiedRound.zeros(3, 2, n_heads=4, device=torch.device("cpu"))
    rounds.tokens.copy_(torch.arange(6).reshape(3, 2))  # by round and prompt
    kept = torch.tensor([[1, 1], [1, 0], [1, 0]]).bool()
    assert [token.token for token in rounds.read(kept)] == [0, 2, 4, 1]


def test_a_draft_stands_where_there_is_nothing_to_replace_it_with() -> None:
    """P is what was drafted from; a q that is a little too large makes rejecting possible."""
    p = torch.tensor([[0.25, 0.75, 0.0]], dtype=torch.float64)
    verdict = verify(
        torch.tensor([0]),
        p * 1.001,
        verifiers=p.log(),
        votes=torch.zeros(1, 3, dtype=torch.long),
        beta=1.0,
        temperature=1.0,
        uniforms=torch.full((1, 2), 0.9999, dtype=torch.float64),
    )
    assert verdict.accepted.item()
    assert verdict.tokens.item() == 0
    assert verdict.overlaps.item() == 1
