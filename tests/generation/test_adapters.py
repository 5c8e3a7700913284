import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from tournament_assets.foundation.errors import InputError
from tournament_assets.generation.hydra.shards import head_shape, read_shards
from tournament_assets.generation.loading import LoadedEntrant, build_entrant
from tournament_assets.generation.models.base_models import Residence, transformers_logging_off
from tournament_assets.generation.models.entrant_weights import EntrantFiles, check_adapter
from tournament_assets.generation.responding import generate_responses
from tournament_assets.project.project_files import Project, entrant_file_problems
from tournament_assets.tournament.places import Location
from tournament_assets.tournament.prompts import Prompt

from .architectures import ARCHITECTURES
from .builders import DATA, TINY, describe, edit_json
from .reference_decoder import merge_heads

peft: Any = pytest.importorskip("peft")
MLP = ["gate_proj", "up_proj", "down_proj"]
ADAPTER = DATA / "tiny_olmo2_adapter"
IDS = torch.arange(20, 40)[None]


def write_adapter(
    folder: Path, *, base: Path = TINY, seed: int = 1, size: float = 0.05, **settings: Any
) -> Path:
    """Write an adapter of random numbers, as peft does after training."""
    config = peft.LoraConfig(
        **{"r": 4, "target_modules": MLP, "task_type": "CAUSAL_LM", **settings}
    )
    with transformers_logging_off(), torch.random.fork_rng():
        torch.manual_seed(seed)
        model = peft.get_peft_model(
            AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), config
        )
        for name, parameter in model.named_parameters():
            if "lora_" in name and "magnitude" not in name:
                parameter.data = size * torch.randn_like(parameter)
            elif parameter.requires_grad:
                parameter.data += size * torch.randn_like(parameter)
        model.save_pretrained(folder)
    return folder


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return write_adapter(tmp_path / "adapter")


def merged_logits(base: Path, adapter: Path) -> Tensor:
    with transformers_logging_off(), torch.inference_mode():
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        merged = peft.PeftModel.from_pretrained(model, adapter).merge_and_unload().eval()
        logits: Tensor = merged(IDS).logits
    return logits


def logits_of(entrant: LoadedEntrant) -> Tensor:
    with entrant.wearing(), torch.inference_mode():
        logits: Tensor = entrant.model(IDS).logits
    return logits


def respond(entrant: LoadedEntrant, prompts: Sequence[Prompt]) -> dict[str, str]:
    batches = generate_responses(entrant, prompts, batch_size=4)
    return {response.prompt_id: response.text for batch in batches for response in batch}


Build = Callable[[Path | None], LoadedEntrant]


@pytest.fixture
def build() -> Build:
    residence = Residence()
    spec = describe(max_new_tokens=16)

    def build_on_tiny(adapter: Path | None) -> LoadedEntrant:
        files = EntrantFiles(TINY, adapter=adapter)
        return build_entrant(spec, files=files, device="cpu", residence=residence)

    return build_on_tiny


@pytest.mark.parametrize(
    ("model_type", "settings"),
    [
        ("gpt2", {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
        ("llama", {"target_modules": "all-linear", "use_dora": True}),
        (
            "qwen2",
            {"target_modules": ["q_proj"], "use_rslora": True, "rank_pattern": {"q_proj": 2}},
        ),
        ("qwen3", {"target_modules": ["v_proj"], "modules_to_save": ["lm_head"]}),
        ("gemma3", {"target_modules": r".*language_model.*\.(up|o)_proj"}),
        ("mamba", {"target_modules": ["in_proj", "x_proj"]}),
        ("gpt2", {"target_modules": ["c_attn"], "trainable_token_indices": [20, 21, 22]}),
        ("qwen2", {"target_modules": ["q_proj"], "trainable_token_indices": [20, 21, 22]}),
    ],
)
def test_an_adapted_model_computes_what_the_merged_one_does(
    model_type: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    base = tmp_path / "base"
    next(each for each in ARCHITECTURES if each.model_type == model_type).write(base)
    adapter = write_adapter(tmp_path / "adapter", base=base, **settings)
    files = EntrantFiles(base, adapter=adapter)
    entrant = build_entrant(describe(), files=files, device="cpu")
    expected = merged_logits(base, adapter)
    torch.testing.assert_close(logits_of(entrant), expected, rtol=1e-4, atol=1e-4)
    with torch.inference_mode():
        plain = entrant.model(IDS).logits
    assert float((plain - expected).abs().max()) > 1e-2


def test_the_bundled_adapter_is_the_first_head_speaking_alone(build: Build) -> None:
    bundled = build(ADAPTER)
    shards = read_shards(
        [DATA / "tiny_olmo2_heads" / "security" / "shard_0_lora.safetensors"],
        shape=head_shape(bundled.model, heads_depth=3),
        rank=8,
        scale=2.0,
    )
    (merged,) = merge_heads(bundled.model, [shards])
    with torch.inference_mode():
        expected = merged(IDS).logits
        plain = bundled.model(IDS).logits
    torch.testing.assert_close(logits_of(bundled), expected, rtol=1e-4, atol=1e-4)
    assert float((plain - expected).abs().max()) > 0.1
    assert sum(path.stat().st_size for path in ADAPTER.iterdir()) < 300_000


def test_a_zero_adapter_answers_as_the_plain_model(
    tmp_path: Path, build: Build, bank: list[Prompt]
) -> None:
    zero = build(write_adapter(tmp_path / "zero", size=0.0))
    plain = build(None)
    torch.testing.assert_close(logits_of(zero), logits_of(plain), rtol=0, atol=1e-6)
    assert respond(zero, bank[:4]) == respond(plain, bank[:4])


def test_entrants_with_different_adapters_share_the_model_and_do_not_disturb_each_other(
    tmp_path: Path, build: Build, bank: list[Prompt]
) -> None:
    plain = build(None)
    alone = respond(plain, bank[:4])
    before = logits_of(plain)
    first, second = (
        build(write_adapter(tmp_path / str(seed), seed=seed, size=0.5)) for seed in (1, 2)
    )
    assert first.model is second.model is plain.model
    answers = [respond(entrant, bank[:4]) for entrant in (first, second, plain, first)]
    assert answers[0] == answers[3]
    assert answers[0] != answers[1]
    assert answers[2] == alone
    assert torch.equal(logits_of(plain), before)
    with pytest.raises(ZeroDivisionError), first.wearing():
        raise ZeroDivisionError
    assert torch.equal(logits_of(plain), before)


def test_the_adapters_bytes_are_in_the_fingerprint_and_its_place_is_not(tmp_path: Path) -> None:
    one = write_adapter(tmp_path / "one")
    copied = Path(shutil.copytree(one, tmp_path / "copy"))
    other = write_adapter(tmp_path / "other", seed=2)
    found = [EntrantFiles(TINY, adapter=each).fingerprint for each in (one, copied, other, None)]
    assert found[0] == found[1]
    assert len(set(found)) == 3
    edited = json.loads((copied / "adapter_config.json").read_text())
    (copied / "adapter_config.json").write_text(json.dumps({**edited, "lora_alpha": 64}))
    assert EntrantFiles(TINY, adapter=copied).fingerprint not in found


def test_a_chat_template_and_a_tokenizer_beside_the_adapter_are_used(
    build: Build, adapter: Path
) -> None:
    plain = build(None)
    assert build(adapter).tokenizer is plain.tokenizer
    (adapter / "chat_template.jinja").write_text("hello")
    assert build(adapter).tokenizer.chat_template == "hello"
    assert plain.tokenizer.chat_template != "hello"
    plain.tokenizer.save_pretrained(adapter)
    (adapter / "chat_template.jinja").unlink()
    tokenizer = build(adapter).tokenizer
    assert tokenizer is not plain.tokenizer
    assert tokenizer.chat_template == plain.tokenizer.chat_template


def test_a_base_without_chat_template_is_enough_where_the_adapter_has_one(
    tmp_path: Path, folder: Path, adapter: Path
) -> None:
    template = (folder / "chat_template.jinja").rename(adapter / "chat_template.jinja")
    spec = describe().model_copy(
        update={"weights": Location(path=str(folder)), "adapter": Location(path=str(adapter))}
    )
    project = Project(folder=tmp_path, environment={})
    assert entrant_file_problems([spec], project) == []
    entrant = build_entrant(spec, files=EntrantFiles(folder, adapter=adapter), device="cpu")
    assert entrant.tokenizer.chat_template == template.read_text()
    template.unlink()
    (problem,) = entrant_file_problems([spec], project)
    assert "chat template" in problem


def refusal(build: Build, adapter: Path) -> str:
    with pytest.raises(InputError) as raised:
        build(adapter)
    return str(raised.value)


def test_tensors_that_are_missing_or_have_no_place_are_refused(
    tmp_path: Path, build: Build
) -> None:
    before = logits_of(build(None))
    adapter = write_adapter(tmp_path / "adapter")
    file = adapter / "adapter_model.safetensors"
    tensors = load_file(file)
    key = next(key for key in tensors if "layers.2.mlp.up_proj.lora_B" in key)
    tensors[f"other.{key}"] = tensors.pop(key)
    save_file(tensors, file)
    problem = refusal(build, adapter)
    assert re.findall(r"\b(\d) tensors .*?'(other|base)", problem) == [
        ("1", "base"),
        ("1", "other"),
    ]
    assert torch.equal(logits_of(build(None)), before)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"target_modules": ["c_attn"]}, "c_attn"),
        ({"layers_to_transform": [7]}, "peft says"),
    ],
)
def test_an_adapter_of_another_base_is_refused(
    settings: dict[str, Any], word: str, build: Build, adapter: Path
) -> None:
    edit_json(adapter / "adapter_config.json", **settings)
    problem = refusal(build, adapter)
    assert f"{str(adapter)!r}" in problem
    assert f"{str(TINY)!r}" in problem
    assert word in problem


def test_another_shape_is_refused(build: Build, adapter: Path) -> None:
    edit_json(adapter / "adapter_config.json", r=8)
    assert "size mismatch" in refusal(build, adapter)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("bias", "all"),
        ("init_lora_weights", "pissa"),
        ("layer_replication", [[0, 4], [2, 6]]),
        ("use_tomorrows_lora", {"gamma": 2}),
    ],
)
def test_an_adapter_that_would_change_the_shared_model_is_refused_by_the_settings_name(
    setting: str, value: object, build: Build, adapter: Path
) -> None:
    edit_json(adapter / "adapter_config.json", **{setting: value})
    problem = refusal(build, adapter)
    assert f"{setting}: " in problem
    assert "merge_and_unload" in problem


def test_a_setting_of_a_later_peft_that_says_nothing_is_no_reason_to_refuse(
    build: Build, adapter: Path
) -> None:
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "use_x": False, "x_config": None}))
    assert build(adapter).adapter


def test_an_adapter_that_names_another_base_is_told(build: Build, adapter: Path) -> None:
    named = {
        "tiny_olmo2": 0,
        "allenai/Tiny_OLMo2": 0,
        "/cache/models--allenai--tiny_olmo2/snapshots/1a2b": 0,
        "allenai/tiny_olmo2_base": 1,
    }
    for base, n_warnings in named.items():
        edit_json(adapter / "adapter_config.json", base_model_name_or_path=base)
        warnings = build(adapter).warnings
        assert len(warnings) == n_warnings
        assert all(f"{base!r}" in warning and str(TINY) in warning for warning in warnings)


def test_an_adapter_of_integers_is_refused(build: Build, adapter: Path) -> None:
    file = adapter / "adapter_model.safetensors"
    save_file({name: each.to(torch.int8) for name, each in load_file(file).items()}, file)
    assert re.search(r" 36 weights that are integers.*\(I8\)", refusal(build, adapter))


def test_everything_wrong_with_a_folder_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "PREFIX_TUNING"}')
    (tmp_path / "adapter_model.bin").write_bytes(b"pickled")
    weights, kind = check_adapter(tmp_path, name="entrant 'a'")
    assert "adapter_model.safetensors" in weights
    assert "'PREFIX_TUNING'" in kind
    (problem,) = check_adapter(tmp_path / "nowhere", name="entrant 'a'")
    assert f"{str(tmp_path / 'nowhere')!r}" in problem


def test_without_the_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = write_adapter(tmp_path)
    monkeypatch.setattr(
        "tournament_assets.generation.models.entrant_weights.find_spec", lambda name: None
    )
    (problem,) = check_adapter(adapter, name="entrant 'a'")
    assert "pip install 'tournament-assets[peft]'" in problem
