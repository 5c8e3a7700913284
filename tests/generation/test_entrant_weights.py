import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tournament_assets.foundation.errors import InputError
from tournament_assets.generation.models.entrant_weights import (
    LFS_PREFIX,
    EntrantFiles,
    check_weights,
    find_shards,
    fingerprint_file,
    fingerprint_weights,
)
from tournament_assets.tournament.hydra_entrants import NeededShards
from tournament_assets.tournament.places import Location

from .builders import TINY
from .hydra_projects import write_heads

POINTER = LFS_PREFIX + b"/spec/v1\noid sha256:00\nsize 2947392\n"


def problem_of(folder: Path) -> str:
    (problem,) = check_weights(folder, name="entrant 'base'")
    return problem


def test_a_whole_folder_has_no_problems(folder: Path) -> None:
    assert check_weights(folder, name="entrant 'base'") == []


def test_a_file_in_place_of_the_folder_is_named(folder: Path) -> None:
    assert f"{str(folder / 'model.safetensors')!r} is a file" in problem_of(
        folder / "model.safetensors"
    )


Damage = Callable[[Path], object]
WEIGHTS, OTHERS = "model.safetensors", "consolidated.safetensors"


def lose(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def write(name: str, content: str | bytes) -> Damage:
    written = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(written)


def index(*names: str) -> Damage:
    shards = {"weight_map": {str(number): name for number, name in enumerate(names)}}
    return write("model.safetensors.index.json", json.dumps(shards))


def cut(n_bytes: int) -> Damage:
    return lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:n_bytes])


def rename(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


def copy_weights(folder: Path) -> None:
    shutil.copy(folder / WEIGHTS, folder / OTHERS)


@pytest.mark.parametrize(
    ("damages", "said"),
    [
        ([shutil.rmtree], r"there is no folder .*weights"),
        ([lose("config.json")], r"config\.json;"),
        ([write("config.json", '{"model_type": ')], r"config\.json' is not"),
        ([rename], r"pytorch_model\.bin;"),
        ([lose(WEIGHTS)], "no weights;"),
        ([index(WEIGHTS, "model-2.safetensors")], r"lacks model-2\.safetensors;"),
        ([write("adapter_config.json", "{}")], r"adapter \(adapter_config\.json\)"),
        ([write("adapter_model.safetensors", "{}")], r"adapter \(adapter_model\.safetensors\)"),
        ([copy_weights], rf"holds {OTHERS},"),
        ([copy_weights, index(OTHERS)], rf"holds {WEIGHTS},"),
        ([cut(100_000)], r"100000.*2946552|2946552.*100000"),
        ([cut(9)], r"begin.*\b9\b|\b9\b.*begin"),
        *(
            ([write(name, POINTER)], rf"{re.escape(name)} .*'git lfs pull'")
            for name in (WEIGHTS, "tokenizer.json", "config.json")
        ),
        ([lose("tokenizer.json")], "no tokenizer;"),
        ([lose("chat_template.jinja")], r"chat_template\.jinja"),
    ],
)
def test_what_is_wrong_with_a_folder_is_one_problem_and_told_without_loading_it(
    folder: Path, damages: list[Damage], said: str
) -> None:
    for damage in damages:
        damage(folder)
    problem = problem_of(folder)
    assert problem.startswith("entrant 'base': ")
    assert re.search(said, problem)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "t5", "is_encoder_decoder": True}, "(t5)"),
        (
            {"model_type": "mine", "auto_map": {"AutoModelForCausalLM": "modeling_mine.Mine"}},
            "(modeling_mine.py)",
        ),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            "pip install gptqmodel optimum",
        ),
        (
            {"quantization_config": {"quant_method": "awq", "bits": 4}},
            "pip install gptqmodel,",
        ),
        (
            {"quantization_config": {"quant_method": "tomorrows", "bits": 3}},
            "by 'tomorrows', which",
        ),
        ({"quantization_config": {"bits": 4}}, "by None, which"),
    ],
)
def test_models_that_cannot_play_are_told_by_their_config(
    folder: Path, config: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tournament_assets.generation.models.entrant_weights.find_spec",
        lambda name: None if name in ("gptqmodel", "optimum") else name,
    )
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    assert said in problem_of(folder)


def test_integers_that_nothing_explains_are_refused(folder: Path) -> None:
    path = folder / WEIGHTS
    tensors = load_file(path)
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name] = tensors[name].view(torch.int16)
    save_file(tensors, path)
    assert re.search(
        rf" 1 weights that are integers, .*'{re.escape(name)}' \(I16\)", problem_of(folder)
    )


def test_code_beside_an_architecture_that_transformers_has_is_not_needed(folder: Path) -> None:
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), "auto_map": {"AutoConfig": "configuration_x.X"}}
    path.write_text(json.dumps(config))
    assert check_weights(folder, name="entrant 'base'") == []


def test_a_chat_template_inside_the_tokenizer_config_counts(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": "{{ 1 }}"}))
    assert check_weights(folder, name="entrant 'base'") == []


def test_several_problems_are_reported_together(folder: Path) -> None:
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / file).unlink()
    assert len(check_weights(folder, name="entrant 'base'")) == 3


@pytest.mark.parametrize(
    "file",
    [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "model.safetensors",
    ],
)
def test_changing_the_end_of_any_file_that_is_loaded_changes_the_fingerprint(
    folder: Path, file: str
) -> None:
    before = fingerprint_weights(folder)
    with (folder / file).open("ab") as opened:
        opened.write(b" ")
    assert fingerprint_weights(folder) != before


def test_renaming_a_file_changes_the_fingerprint(folder: Path) -> None:
    before = fingerprint_weights(folder)
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    assert fingerprint_weights(folder) != before


def test_place_and_model_card_do_not_change_the_fingerprint(folder: Path) -> None:
    before = fingerprint_weights(folder)
    assert len(before) == 64
    moved = Path(shutil.copytree(folder, folder.parent / "elsewhere"))
    (moved / "README.md").write_text("another card")
    (moved / "checkpoint-10").mkdir()
    (moved / "checkpoint-10" / "config.json").write_text("{}")
    assert fingerprint_weights(moved) == before


def test_an_empty_folder_has_no_fingerprint(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(f"{str(tmp_path)!r}")):
        fingerprint_weights(tmp_path)


def test_checking_weights_does_not_import_torch() -> None:
    code = (
        "import sys, tournament_assets.generation.models.entrant_weights; "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


HERE = Location(path="heads", source="the authors' page")


def needed(*names: str) -> NeededShards:
    return NeededShards(folder=HERE, names=names)


def test_files_are_found_in_the_order_of_the_heads(tmp_path: Path) -> None:
    for name in ("b.pt", "a.pt"):
        (tmp_path / name).write_bytes(b"x")
    found = find_shards(needed("b.pt", "a.pt"), tmp_path, what="shards")
    assert [path.name for path in found] == ["b.pt", "a.pt"]


def test_a_wildcard_leads_to_one_file(tmp_path: Path) -> None:
    for run in ("one", "two"):
        (tmp_path / "shard_0" / run).mkdir(parents=True)
    (tmp_path / "shard_0" / "one" / "step_5.pt").write_bytes(b"x")
    (found,) = find_shards(needed("shard_0/*/step_5.pt"), tmp_path, what="shards")
    assert found == tmp_path / "shard_0" / "one" / "step_5.pt"
    (tmp_path / "shard_0" / "two" / "step_5.pt").write_bytes(b"x")
    with pytest.raises(InputError, match=r": 2 files .*'shard_0/[*]/step_5\.pt'"):
        find_shards(needed("shard_0/*/step_5.pt"), tmp_path, what="shards")


def test_all_that_is_missing_is_told_at_once_with_where_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "shard_1.pt").write_bytes(LFS_PREFIX + b"/spec/v1\noid sha256:00\nsize 1\n")
    names = [f"shard_{head}.pt" for head in range(6)]
    what = "the security shards of poe"
    with pytest.raises(InputError) as raised:
        find_shards(needed(*names), tmp_path, what=what)
    pointer, missing = raised.value.problems
    assert f"{str(tmp_path / 'shard_1.pt')!r} is a Git-LFS" in pointer
    assert re.search(r" 5 of 6 .*shard_0\.pt, shard_2\.pt, shard_3\.pt and 2 more", missing)
    assert f"{HERE.source}" in missing
    assert all(problem.startswith(f"{what}: ") for problem in raised.value.problems)


def test_the_fingerprint_counts_every_shard_and_the_order_of_the_heads(tmp_path: Path) -> None:
    files = write_heads(tmp_path)
    assert EntrantFiles(TINY).fingerprint == fingerprint_weights(TINY)
    security = list(files.shards["security"])
    swapped = EntrantFiles(TINY, {**files.shards, "security": security[::-1]})
    fewer = EntrantFiles(TINY, {"security": security})
    assert len({files.fingerprint, swapped.fingerprint, fewer.fingerprint}) == 3
    before = files.fingerprint
    security[2].write_bytes(security[2].read_bytes()[:-1] + b"?")
    assert files.fingerprint != before


def test_a_file_is_read_again_only_after_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    first = fingerprint_file(path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda *args, **kwargs: pytest.fail("read again"))
        assert fingerprint_file(path) == first
    path.write_bytes(b"another")
    assert fingerprint_file(path) != first
