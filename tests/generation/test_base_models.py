import copy
import gc
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.utils import logging

from tournament_assets.generation.models.base_models import (
    Residence,
    decoding_threads,
    dtype_for,
    load_base,
    pick_device,
    transformers_logging_off,
)
from tournament_assets.generation.models.batch_probe import is_batchable

from .builders import TINY


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_a_small_model_is_decoded_on_one_thread_and_a_large_one_on_all() -> None:
    with decoding_threads(1_500_000):
        assert torch.get_num_threads() == 1
    with decoding_threads(7_000_000_000):
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_the_number_of_threads_comes_back_after_an_error() -> None:
    def fail() -> None:
        with decoding_threads(1_500_000):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == 3


def test_cuda_means_bfloat16() -> None:
    assert dtype_for("cuda:1") == torch.bfloat16
    assert dtype_for("cpu") == torch.float32


def test_cards_without_bfloat16_get_float16() -> None:
    by_capability = {(7, 5): torch.float16, (7, 0): torch.float16, (8, 0): torch.bfloat16}
    for found, dtype in by_capability.items():
        assert dtype_for("cuda", capability=lambda _, found=found: found) == dtype  # type: ignore[misc]


def test_the_picked_device_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    picked = pick_device()
    assert picked.device == "cpu"
    assert "CUDA" in picked.sentence


def test_transformers_is_quiet_only_inside_the_block() -> None:
    def fail_quietly() -> None:
        with transformers_logging_off():
            assert logging.get_verbosity() == logging.ERROR
            assert not logging.is_progress_bar_enabled()
            raise KeyError

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.INFO)
    logging.enable_progress_bar()
    with pytest.raises(KeyError):
        fail_quietly()
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (logging.INFO, True)
    logging.set_verbosity(before[0])
    if not before[1]:
        logging.disable_progress_bar()


class ReadsNoPadding:
    """A model that fails on whatever is padded."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.device, self.dtype, self.config = model.device, model.dtype, model.config

    def num_parameters(self) -> int:
        return 1

    def generate(self, **arguments: Any) -> Any:
        if not arguments["attention_mask"].all():
            raise NotImplementedError("padding")
        return self._model.generate(**arguments)


def test_a_model_that_cannot_read_padding_answers_prompts_one_by_one() -> None:
    base = load_base(TINY, device="cpu", name="tiny")
    assert base.is_batchable
    assert not is_batchable(ReadsNoPadding(base.model), base.tokenizer, name="tiny")


class MisreadsBeyond(ReadsNoPadding):
    """A model that reads something else where a padded row is longer than a window."""

    def __init__(self, model: Any, *, window: int, **fields: object) -> None:
        super().__init__(model)
        self.window, self.parameters = window, fields.pop("parameters", 1)
        self.config = copy.deepcopy(model.config)
        self.config.update({"model_type": "novel", **fields})

    def num_parameters(self) -> int:
        return int(str(self.parameters))

    def generate(self, **arguments: Any) -> Any:
        ids, mask = arguments["input_ids"], arguments["attention_mask"]
        if not mask.all() and ids.shape[1] > self.window:
            arguments["input_ids"] = ids.roll(1, 0)
        return self._model.generate(**arguments)


@pytest.mark.parametrize(
    ("fields", "window", "expected"),
    [
        ({}, 500, True),
        ({}, 16, False),
        ({"sliding_window": 64}, 64, False),
        ({"sliding_window": 64}, 500, True),
        ({"sliding_window": None, "text_config": {"attention_chunk_size": 70}}, 70, False),
        ({"index_topk": 64}, 500, False),
        ({"text_config": {"compress_ratios": [4, 128]}}, 500, False),
        ({"sliding_window": 64, "parameters": 10**11}, 500, False),
        ({"sliding_window": 64, "parameters": 10**11, "model_type": "mistral"}, 500, True),
    ],
)
def test_rows_share_batches_only_where_they_are_equal_on_both_sides_of_every_window(
    fields: dict[str, object], window: int, expected: bool
) -> None:
    base = load_base(TINY, device="cpu", name="tiny")
    model = MisreadsBeyond(base.model, window=window, **fields)
    assert is_batchable(model, base.tokenizer, name="tiny") == expected


def test_a_model_leaves_the_memory_before_another_one_is_loaded(tmp_path: Path) -> None:
    residence = Residence()
    first = weakref.ref(residence.load(TINY, device="cpu", name="first").model)
    other = Path(shutil.copytree(TINY, tmp_path / "other"))
    (other / "generation_config.json").write_text("{}")
    residence.load(other, device="cpu", name="other")
    gc.collect()
    assert first() is None
