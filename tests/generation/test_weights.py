import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tournament_assets.generation.models.entrant_weights import (
    LFS_PREFIX,
    check_weights,
    fingerprint_weights,
)
from tournament_assets.tournament.errors import InputError

POINTER = LFS_PREFIX + b"/spec/v1\noid sha256:00\nsize 2947392\n"


def problem_of(folder: Path) -> str:
    (problem,) = check_weights(folder, name="entrant 'base'")
    return problem


def test_a_whole_folder_has_no_problems(folder: Path) -> None:
    assert check_weights(folder, name="entrant 'base'") == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    problem = problem_of(tmp_path / "nowhere")
    assert problem.startswith("entrant 'base': there is no folder")
    assert "nowhere" in problem
    assert "download them or correct" in problem


def test_a_file_in_place_of_the_folder_is_named(folder: Path) -> None:
    assert "model.safetensors' is a file; expected the folder" in problem_of(
        folder / "model.safetensors"
    )


def test_a_folder_without_config_is_a_problem(folder: Path) -> None:
    (folder / "config.json").unlink()
    assert "has no config.json" in problem_of(folder)


def test_pickled_weights_are_named_and_not_accepted(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "has only pytorch_model.bin; expected *.safetensors" in problem_of(folder)


def test_a_folder_without_weights_is_a_problem(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "has no weights; expected *.safetensors" in problem_of(folder)


def test_an_unfinished_download_names_the_missing_shards(folder: Path) -> None:
    shards = {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    assert "lacks model-00002-of-00002.safetensors; expected every file" in problem_of(folder)


@pytest.mark.parametrize("file", ["adapter_config.json", "adapter_model.safetensors"])
def test_an_adapter_beside_the_weights_is_refused_by_name(folder: Path, file: str) -> None:
    (folder / file).write_text("{}")
    problem = problem_of(folder)
    assert f"holds an adapter ({file})" in problem
    assert "move the adapter to a folder of its own" in problem


def test_weights_that_would_not_be_loaded_are_refused_by_name(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder / "consolidated.safetensors")
    assert "holds consolidated.safetensors, which would not be loaded" in problem_of(folder)
    shards = {"weight_map": {"a": "consolidated.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(shards))
    assert "holds model.safetensors, which would not be loaded" in problem_of(folder)


@pytest.mark.parametrize(("n_bytes", "said"), [(100_000, "its header says 2946552"), (9, "begin")])
def test_weights_that_end_too_early_are_told_without_loading_them(
    folder: Path, n_bytes: int, said: str
) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:n_bytes])
    problem = problem_of(folder)
    assert str(n_bytes) in problem
    assert said in problem


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "t5", "is_encoder_decoder": True}, "an encoder-decoder model (t5)"),
        (
            {"model_type": "mine", "auto_map": {"AutoModelForCausalLM": "modeling_mine.Mine"}},
            "needs code of its own (modeling_mine.py), which is refused",
        ),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            "quantised by gptq, and gptqmodel and optimum are not installed",
        ),
        (
            {"quantization_config": {"quant_method": "awq", "bits": 4}},
            "quantised by awq, and gptqmodel is not installed",
        ),
    ],
)
def test_models_that_cannot_play_are_told_by_their_config(
    folder: Path, config: dict[str, object], said: str
) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    assert said in problem_of(folder)


def test_code_beside_an_architecture_that_transformers_has_is_not_needed(folder: Path) -> None:
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), "auto_map": {"AutoConfig": "configuration_x.X"}}
    path.write_text(json.dumps(config))
    assert check_weights(folder, name="entrant 'base'") == []


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_git_lfs_pointer_is_recognised(folder: Path, file: str) -> None:
    (folder / file).write_bytes(POINTER)
    problem = problem_of(folder)
    assert f"{file} is a Git-LFS pointer" in problem
    assert "git lfs pull" in problem


def test_a_damaged_config_is_a_problem(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": ')
    assert "config.json' is not a JSON object" in problem_of(folder)


def test_a_folder_without_tokenizer_is_a_problem(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    assert "has no tokenizer; expected tokenizer.json" in problem_of(folder)


def test_a_tokenizer_without_chat_template_is_a_problem(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    assert "has no chat template; expected chat_template.jinja" in problem_of(folder)


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
    with pytest.raises(InputError, match="holds nothing to load"):
        fingerprint_weights(tmp_path)


def test_checking_weights_does_not_import_torch() -> None:
    code = (
        "import sys, tournament_assets.generation.models.entrant_weights; "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
