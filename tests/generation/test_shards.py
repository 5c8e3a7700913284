import os
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tournament_assets.foundation.errors import InputError
from tournament_assets.generation.hydra.shards import HeadShape, check_adapters, read_shards
from tournament_assets.generation.models.entrant_weights import LFS_PREFIX

from .hydra_builders import SCALE, build_shards, state_dict_of, write_shard

SHAPE = HeadShape(hidden_size=6, intermediate_size=10, heads_depth=3)
RANK = 2
KEY = "base_model.model.blocks.1.feed_forward.w2.lora_A.default.weight"
Change = Callable[[dict[str, Tensor]], object]


def problems_of(*paths: Path) -> tuple[str, ...]:
    with pytest.raises(InputError) as raised:
        read_shards(paths, shape=SHAPE, rank=RANK, scale=SCALE)
    return raised.value.problems


def problems_after(change: Change, tmp_path: Path) -> tuple[str, ...]:
    state = state_dict_of(SHAPE, rank=RANK)
    change(state)
    path = write_shard(state, tmp_path / "head.pt")
    problems = problems_of(path)
    assert all(problem.startswith(f"LoRA shard {str(path)!r}: ") for problem in problems)
    return tuple(problem.removeprefix(f"LoRA shard {str(path)!r}: ") for problem in problems)


class Pickled:
    """Runs a command when it is unpickled without care."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (self.command,))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_shards_are_stacked_by_head_under_the_names_of_transformers(
    tmp_path: Path, suffix: str
) -> None:
    states = [state_dict_of(SHAPE, rank=RANK, seed=seed) for seed in range(4)]
    paths = [write_shard(state, tmp_path / f"head{n}{suffix}") for n, state in enumerate(states)]
    shards = read_shards(paths, shape=SHAPE, rank=RANK, scale=SCALE)
    assert (shards.n_heads, shards.rank, shards.scale) == (4, RANK, SCALE)
    assert len(shards.layers) == 3
    for layer, changes in enumerate(shards.layers):
        for name, projection in {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}.items():
            for head, state in enumerate(states):
                prefix = f"base_model.model.blocks.{layer}.feed_forward.{name}.lora_"
                a, b = state[f"{prefix}A.default.weight"], state[f"{prefix}B.default.weight"]
                assert torch.equal(changes[projection].a[head], a)
                assert torch.equal(changes[projection].b[head], b)


def test_a_shard_of_three_layers_has_eighteen_tensors() -> None:
    assert len(state_dict_of(SHAPE, rank=RANK)) == 18


def test_shards_in_half_precision_are_read_as_float32(tmp_path: Path) -> None:
    state = {key: value.bfloat16() for key, value in state_dict_of(SHAPE, rank=RANK).items()}
    path = write_shard(state, tmp_path / "head.safetensors")
    shards = read_shards([path], shape=SHAPE, rank=RANK, scale=SCALE)
    assert shards.layers[1]["down_proj"].a.dtype == torch.float32
    assert torch.equal(shards.layers[1]["down_proj"].a[0], state[KEY].float())


def test_trained_parameters_are_read_as_plain_tensors(tmp_path: Path) -> None:
    state: dict[str, Tensor] = {
        key: torch.nn.Parameter(value) for key, value in state_dict_of(SHAPE, rank=RANK).items()
    }
    path = write_shard(state, tmp_path / "head.pt")
    shards = read_shards([path], shape=SHAPE, rank=RANK, scale=SCALE)
    assert not shards.layers[0]["gate_proj"].a.requires_grad


def test_a_missing_file_is_named_and_no_file_is_a_problem(tmp_path: Path) -> None:
    assert len(problems_of()) == 1
    (problem,) = problems_of(tmp_path / "head.pt")
    assert f"{str(tmp_path / 'head.pt')!r} is not" in problem


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".bin"])
def test_a_git_lfs_pointer_is_recognised_before_anything_else(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"head{suffix}"
    path.write_bytes(LFS_PREFIX + b"/spec/v1\noid sha256:00\nsize 1\n")
    (problem,) = problems_of(path)
    assert f"{str(path)!r}" in problem
    assert "Git-LFS" in problem


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "head.bin").write_bytes(b"weights")
    (problem,) = problems_of(tmp_path / "head.bin")
    assert re.findall(r"'\.\w+'", problem) == ["'.bin'", "'.safetensors'", "'.pt'"]


def test_pickled_code_is_refused_and_does_not_run(tmp_path: Path) -> None:
    state: dict[str, Any] = {**state_dict_of(SHAPE, rank=RANK)}
    state["extra"] = Pickled(f"touch {tmp_path / 'ran'}")
    torch.save(state, tmp_path / "zipped.pt")
    (tmp_path / "bare.pt").write_bytes(pickle.dumps(state, protocol=2))
    zipped, bare = problems_of(tmp_path / "zipped.pt", tmp_path / "bare.pt")
    assert f"{os.system.__module__}.system" in zipped
    assert "pickled" in zipped
    assert "pickled" in bare
    assert "weights_only" not in zipped + bare
    assert not (tmp_path / "ran").exists()


def test_a_damaged_safetensors_file_is_a_problem(tmp_path: Path) -> None:
    path = write_shard(state_dict_of(SHAPE, rank=RANK), tmp_path / "head.safetensors")
    path.write_bytes(path.read_bytes()[:-8])
    (problem,) = problems_of(path)
    assert "safetensors file;" in problem


def test_keys_with_another_prefix_are_refused_rather_than_ignored(tmp_path: Path) -> None:
    def rename(state: dict[str, Tensor]) -> None:
        for key in list(state):
            state[key.removeprefix("base_model.")] = state.pop(key)

    missing, extra = problems_after(rename, tmp_path)
    assert re.match(r"lacks 18 of 18 .*?'base_model\.model\.blocks\.0\.", missing)
    assert re.match(r"holds 18 .*?'model\.blocks\.0\..*; .*'base_model\.model\.blocks\.0\.", extra)


def put(value: Any, key: str = KEY) -> Change:
    return lambda state: state.update({key: value})


ATTENTION = KEY.replace("feed_forward.w2", "attention.q_proj")
NAMED, OTHER = re.escape(repr(KEY)), re.escape(repr(ATTENTION))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda state: state.pop(KEY), rf"lacks 1 of 18 .*{NAMED};"),
        (put(torch.zeros(2, 6), ATTENTION), rf"holds 1 .*{OTHER};"),
        (put(torch.zeros(RANK, 6)), rf"{NAMED} .*\(2, 6\); .*\(2, 10\);"),
        (put(torch.zeros(2)), rf"{NAMED} .*\(2,\); .*\(2, 10\);"),
        (put(torch.zeros(3, 10)), r"\D*2 and 3; \D*2;"),
        (lambda state: state[KEY][1].fill_(float("nan")), f"{NAMED} holds NaN"),
        (lambda state: state[KEY][1].fill_(float("inf")), f"{NAMED} holds NaN"),
        (lambda state: state[KEY][1].fill_(-float("inf")), f"{NAMED} holds NaN"),
        (lambda state: put(state[KEY].double() * 1e60)(state), f"{NAMED} holds NaN"),
        (
            put(torch.zeros(2, 10, dtype=torch.int64)),
            f"{NAMED} is a torch.strided tensor of torch.int64 on cpu;",
        ),
        (
            put(torch.zeros(2, 10, device="meta")),
            f"{NAMED} is a torch.strided tensor of torch.float32 on meta;",
        ),
        (
            put(torch.zeros(2, 10).to_sparse()),
            f"{NAMED} is a torch.sparse_coo tensor of torch.float32 on cpu;",
        ),
        (put("weights"), f"{NAMED} is a str;"),
    ],
)
def test_a_tensor_that_is_not_what_a_head_needs_is_one_problem(
    tmp_path: Path, change: Change, problem: str
) -> None:
    (found,) = problems_after(change, tmp_path)
    assert re.match(problem, found)


@pytest.mark.parametrize(
    ("held", "problem"),
    [
        (b"", "torch.save;"),
        (b"hello", "torch.save;"),
        (b"PK\x03\x04 broken", "torch.save;"),
        (torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        ([torch.zeros(2)], "a list;"),
        (state_dict_of(replace(SHAPE, heads_depth=4), rank=RANK), "holds 6"),
        (state_dict_of(SHAPE, rank=5), r" rank is 5; .*\b2;"),
    ],
)
def test_a_file_that_holds_no_adapter_of_a_head_is_one_problem(
    tmp_path: Path, held: object, problem: str
) -> None:
    path = tmp_path / "head.pt"
    if isinstance(held, bytes):
        path.write_bytes(held)
    else:
        torch.save(held, path)
    (found,) = problems_of(path)
    assert re.search(problem, found)


def test_all_problems_of_all_files_are_listed_together(tmp_path: Path) -> None:
    first, second = (state_dict_of(SHAPE, rank=RANK, seed=seed) for seed in range(2))
    first[KEY][0, 0] = float("nan")
    first["other"] = torch.zeros(1)
    del second[KEY]
    problems = problems_of(
        write_shard(first, tmp_path / "first.pt"),
        tmp_path / "absent.pt",
        write_shard(state_dict_of(SHAPE, rank=RANK), tmp_path / "good.pt"),
        write_shard(second, tmp_path / "second.safetensors"),
    )
    assert len(problems) == 4
    assert [next(n for n in ("first", "absent", "second") if n in p) for p in problems] == [
        "first",
        "first",
        "absent",
        "second",
    ]


def test_adapters_of_different_heads_do_not_go_together() -> None:
    security = build_shards(SHAPE, n_heads=9, rank=2)
    other = HeadShape(hidden_size=6, intermediate_size=10, heads_depth=1)
    robustness = build_shards(other, n_heads=8, rank=3)
    check_adapters(SHAPE, [security, security])
    with pytest.raises(InputError) as raised:
        check_adapters(SHAPE, [security, robustness])
    assert len(raised.value.problems) == 2
    assert "heads_depth=1" in raised.value.problems[0]
    assert "9 and 8 shards;" in raised.value.problems[1]
