import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.utils import logging

from tournament_assets.foundation.errors import GenerationError, InputError
from tournament_assets.generation.devices import DTYPE_NAMES
from tournament_assets.generation.loading import LoadedEntrant, build_entrant
from tournament_assets.generation.models.base_models import (
    DTYPES,
)
from tournament_assets.generation.models.chat_prompts import AskedPrompt
from tournament_assets.generation.models.entrant_weights import (
    EntrantFiles,
    check_weights,
    count_parameters,
)
from tournament_assets.tournament.prompts import GeneratedResponse

from .architectures import ARCHITECTURES
from .builders import TINY, describe, edit_json


def test_on_the_cpu_the_model_is_loaded_in_float32_and_evaluation_mode(
    tiny: LoadedEntrant,
) -> None:
    assert tiny.base.dtype == torch.float32
    assert {parameter.dtype for parameter in tiny.model.parameters()} == {torch.float32}
    assert not tiny.model.training
    assert tiny.eos_ids == (tiny.tokenizer.eos_token_id,)


def test_a_named_precision_comes_before_the_devices_own() -> None:
    files = EntrantFiles(TINY)
    assert set(DTYPES) | {"auto"} == {*DTYPE_NAMES}
    half = build_entrant(describe(), files=files, device="cpu", dtype="bfloat16")
    assert half.base.dtype == half.model.dtype == torch.bfloat16
    with pytest.raises(InputError, match=r"'int8'; .* auto, bfloat16\b"):
        build_entrant(describe(), files=files, device="cpu", dtype="int8")


def test_a_model_that_is_shared_by_devices_answers_as_on_one(tiny: LoadedEntrant) -> None:
    shared = build_entrant(
        describe(), files=EntrantFiles(TINY), device="cpu", max_memory={"cpu": 10**9}
    )
    assert (shared.base.is_spread, shared.device) == (True, "cpu")
    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        torch.testing.assert_close(shared.model(ids).logits, tiny.model(ids).logits)


def test_loading_prints_nothing_and_leaves_transformers_settings_alone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = (logging.get_verbosity(), logging.is_progress_bar_enabled())
    build_entrant(describe(), files=EntrantFiles(TINY), device="cpu")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    assert capfd.readouterr() == ("", "")


def test_all_problems_of_a_folder_are_raised_with_the_entrants_name(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(InputError) as raised:
        build_entrant(describe(), files=EntrantFiles(folder), device="cpu")
    assert len(raised.value.problems) == 2
    assert all(problem.startswith("entrant 'tiny': ") for problem in raised.value.problems)


def test_a_damaged_weights_file_is_a_generation_error(folder: Path) -> None:
    path = folder / "model.safetensors"
    content = path.read_bytes()
    # The first tensor's type, in a header that is as long as before.
    path.write_bytes(content.replace(b'"BF16"', b'"BX16"', 1))
    with pytest.raises(GenerationError, match=r"^entrant 'tiny': .*/weights'"):
        build_entrant(describe(), files=EntrantFiles(folder), device="cpu")


@pytest.mark.parametrize(
    ("file", "changes", "error", "problem"),
    [
        pytest.param(
            *("config.json", {"model_type": "olmo_99"}, GenerationError, "olmo_99"),
            id="an unknown architecture",
        ),
        pytest.param(
            *("config.json", {"num_hidden_layers": 5, "layer_types": None}),
            *(InputError, r" 11 tensors .*'model\.layers\.5\."),
            id="fewer layers than the weights",
        ),
        pytest.param(
            *("tokenizer_config.json", {"extra_special_tokens": ["<|one|>", "<|more|>"]}),
            *(InputError, r"\b1026\b.*\b1024\b"),
            id="more tokens than the model",
        ),
        pytest.param(
            *("tokenizer_config.json", {"eos_token": None}, InputError, "eos_token"),
            id="no end token",
        ),
    ],
)
def test_a_setting_that_does_not_fit_the_weights_is_refused(
    folder: Path, file: str, changes: dict[str, object], error: type[Exception], problem: str
) -> None:
    edit_json(folder / file, **changes)
    with pytest.raises(error, match=problem):
        build_entrant(describe(), files=EntrantFiles(folder), device="cpu")


def test_code_in_the_folder_is_not_run(folder: Path) -> None:
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    edit_json(
        folder / "config.json",
        model_type="evil",
        auto_map={"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"},
    )
    with pytest.raises(InputError, match=r"\(evil\.py\)"):
        build_entrant(describe(), files=EntrantFiles(folder), device="cpu")


def test_tensors_of_another_shape_are_named_with_both_shapes(folder: Path) -> None:
    edit_json(folder / "config.json", intermediate_size=360)
    with pytest.raises(InputError) as raised:
        build_entrant(describe(), files=EntrantFiles(folder), device="cpu")
    (problem,) = raised.value.problems
    assert " 18 tensors " in problem
    assert re.search(r"\.0\.mlp\.down_proj\.weight' .*\(128, 352\) .*\(128, 360\)", problem)


def test_a_missing_tensor_is_refused_rather_than_made_up(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.3.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r" 1 tensors, .*'model\.layers\.3\.mlp"):
        build_entrant(describe(), files=EntrantFiles(folder), device="cpu")


def test_missing_and_unexpected_tensors_are_told_together(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.3.mlp.up.weight"] = tensors.pop("model.layers.3.mlp.up_proj.weight")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError) as raised:
        build_entrant(describe(), files=EntrantFiles(folder), device="cpu")
    assert [" lack 1 " in each for each in raised.value.problems] == [True, False]
    assert [" hold 1 " in each for each in raised.value.problems] == [False, True]


def test_a_tokenizer_without_padding_token_pads_with_its_end_token(folder: Path) -> None:
    edit_json(folder / "tokenizer_config.json", pad_token=None)
    entrant = build_entrant(describe(), files=EntrantFiles(folder), device="cpu")
    assert entrant.tokenizer.pad_token_id == entrant.tokenizer.eos_token_id


def test_every_end_token_the_files_name_ends_a_response(folder: Path, tiny: LoadedEntrant) -> None:
    edit_json(folder / "generation_config.json", eos_token_id=[7, 8])
    entrant = build_entrant(describe(), files=EntrantFiles(folder), device="cpu")
    assert entrant.eos_ids == (7, 8, tiny.tokenizer.eos_token_id)


def write_gguf(source: Path, path: Path, **metadata: str) -> None:
    """Write a Qwen2 model and its byte-level tokenizer as llama.cpp's converter does."""
    gguf: Any = pytest.importorskip("gguf")
    config = json.loads((source / "config.json").read_text())
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    special = {each["content"]: each["id"] for each in tokenizer["added_tokens"]}
    ids = {**tokenizer["model"]["vocab"], **special}
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_name("tiny")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(ids, key=ids.__getitem__))
    writer.add_token_types(
        [3 if token in special else 1 for token in sorted(ids, key=ids.__getitem__)]
    )
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(config["eos_token_id"])
    for key, value in metadata.items():
        writer.add_string(f"tokenizer.{key}", value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config["num_hidden_layers"])
    for name, tensor in load_file(source / "model.safetensors").items():
        named = names.get_name(name, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(named, tensor.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_plays_as_the_folder_that_it_was_made_from(tmp_path: Path) -> None:
    source, file = tmp_path / "source", tmp_path / "tiny.gguf"
    next(each for each in ARCHITECTURES if each.model_type == "qwen2").write(source)
    template = (source / "chat_template.jinja").read_text()
    write_gguf(source, file, chat_template=template)
    assert check_weights(file, name="entrant 'a'") == []
    packed, plain = (
        build_entrant(describe(), files=EntrantFiles(each), device="cpu") for each in (file, source)
    )
    ids = torch.arange(5, 40)[None]
    with torch.inference_mode():
        torch.testing.assert_close(packed.model(ids).logits, plain.model(ids).logits)
    assert packed.eos_ids == plain.eos_ids
    said = "Which vitamin? <|user|>"
    assert packed.tokenizer(said)["input_ids"] == plain.tokenizer(said)["input_ids"]
    assert packed.tokenizer.chat_template == template
    assert count_parameters(file) == packed.model.num_parameters()
    before = EntrantFiles(file).fingerprint
    with file.open("ab") as opened:
        opened.write(b" ")
    assert EntrantFiles(file).fingerprint != before
    write_gguf(source, file)
    with pytest.raises(InputError, match=r"tiny\.gguf' has no chat template"):
        build_entrant(describe(), files=EntrantFiles(file), device="cpu")
    file.write_bytes(b"version https://git-lfs")
    assert "does not begin as a GGUF file" in check_weights(file, name="entrant 'a'")[0]


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("<think>", "</think>"),  # LFM 2.5
        ("[THINK]", "[/THINK]"),  # Ministral 3
        ("<seed:think>", "</seed:think>"),  # Seed-OSS
        ("<|begin_reasoning|>", "<|end_reasoning|>"),  # only its tokenizer names it
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ],
)
@pytest.mark.parametrize("is_opened_by_the_template", [False, True])
def test_a_thought_between_special_tokens_is_told_apart(
    opening: str, closing: str, *, is_opened_by_the_template: bool
) -> None:
    spec = describe().model_copy(update={"strip": "think"})
    entrant = build_entrant(spec, files=EntrantFiles(TINY), device="cpu")
    marks = re.findall(r"<[^<>]*>|\[[^]]*\]", opening + closing)
    tokenizer = copy.deepcopy(entrant.tokenizer)
    tokenizer.add_special_tokens({"additional_special_tokens": [*dict.fromkeys(marks), "<|eot|>"]})
    entrant = replace(entrant, base=replace(entrant.base, tokenizer=tokenizer))
    written = f"Hm, é.{closing} Two. <|eot|>"
    before = f"What? {opening}\n" if is_opened_by_the_template else "What? "
    if not is_opened_by_the_template:
        written = opening + written
    prompt = AskedPrompt(prompt_id="p", ids=tuple(tokenizer.encode(before)), seed=1, text=before)
    ids = tokenizer.encode(written, add_special_tokens=False)
    response = entrant.respond(prompt, ids, end="stop", diagnostics={})
    assert (response.text, response.diagnostics["thought"]) == ("Two.", "Hm, é.")
    aloud = response.read_again(cuts_thoughts=False)
    assert isinstance(aloud, GeneratedResponse)
    assert "Hm, é." in aloud.text
    cut = entrant.respond(prompt, ids[:3], end="length", diagnostics={})
    assert cut.text == ""
