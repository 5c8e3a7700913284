import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tournament_assets.foundation.errors import GenerationError, InputError
from tournament_assets.foundation.fingerprints import prompt_seed
from tournament_assets.generation import responding
from tournament_assets.generation.hydra.decoding import CapturedRounds
from tournament_assets.generation.loading import LoadedEntrant, build_entrant
from tournament_assets.generation.models.base_models import Residence
from tournament_assets.generation.models.chat_prompts import SHORTEST, padded_length
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.generation.responding import (
    Peak,
    choose_batch_size,
    fit_batch_size,
    free_bytes,
    generate_responses,
    is_out_of_memory,
    measure_peak,
)
from tournament_assets.tournament.entrants import LocalEntrant
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

from .builders import TINY, Settle, describe
from .hydra_builders import CountingRecorder, write_shard
from .hydra_projects import describe_hydra, write_heads


def respond(
    entrant: LoadedEntrant, prompts: Sequence[Prompt], *, batch_size: int = 4
) -> dict[str, GeneratedResponse]:
    batches = generate_responses(entrant, prompts, batch_size=batch_size)
    return {response.prompt_id: response for batch in batches for response in batch}


class RecordingModel:
    """Passes everything on to a model and remembers what it was asked; may run out of memory."""

    def __init__(self, model: Any, *, rows_in_memory: int = 1000) -> None:
        self.model = model
        self.config = model.config
        self.generation_config = model.generation_config
        self.rows_in_memory = rows_in_memory
        self.masks: list[torch.Tensor] = []

    def num_parameters(self) -> int:
        n_parameters: int = self.model.num_parameters()
        return n_parameters

    def generate(self, **arguments: Any) -> torch.Tensor:
        mask: torch.Tensor = arguments["attention_mask"]
        self.masks.append(mask)
        if mask.shape[0] > self.rows_in_memory:
            raise torch.OutOfMemoryError("CUDA out of memory")
        sequences: torch.Tensor = self.model.generate(**arguments)
        return sequences


def with_model(entrant: LoadedEntrant, model: Any, *, spec: LocalEntrant) -> LoadedEntrant:
    return replace(entrant, base=replace(entrant.base, model=model), spec=spec)


def test_a_response_does_not_depend_on_its_batch_companions(
    settle: Settle, bank: list[Prompt]
) -> None:
    entrant = settle(describe(temperature=1.3, max_new_tokens=24))
    prompts = bank[::8]
    together = respond(entrant, prompts)
    for seed in (1, 2):
        shuffled = random.Random(seed).sample(prompts, len(prompts))
        assert respond(entrant, shuffled) == together
    for prompt in prompts[::3]:
        assert respond(entrant, [prompt]) == {prompt.prompt_id: together[prompt.prompt_id]}


def test_tensor_shapes_depend_on_the_prompt_and_the_batch_size_only(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    model = RecordingModel(tiny.model)
    entrant = with_model(tiny, model, spec=describe(max_new_tokens=1))
    respond(entrant, bank, batch_size=5)
    for mask in model.masks:
        assert mask.shape[0] == 5
        assert mask.shape[1] in {64, 128, 256}
        # A batch without padding would lose its mask and be computed by another kernel.
        assert mask.sum(dim=1).max() < mask.shape[1]
        assert mask.sum(dim=1).min() >= mask.shape[1] // 2 or mask.shape[1] == SHORTEST
    lengths = [mask.shape[1] for mask in model.masks]
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) > 1


def test_a_prompt_that_fills_its_step_exactly_still_gets_padding(tiny: LoadedEntrant) -> None:
    model = RecordingModel(tiny.model)
    entrant = with_model(tiny, model, spec=describe(max_new_tokens=1))
    texts = ["a" + " a" * n for n in range(SHORTEST)]
    prompts = [Prompt(prompt_id=text, text=text, source="test") for text in texts]
    counted = respond(entrant, prompts, batch_size=1)
    assert SHORTEST in {response.prompt_tokens for response in counted.values()}
    assert all(int(mask.sum()) < mask.shape[1] for mask in model.masks)


def test_greedy_responses_equal_transformers_own_generate(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    ours = respond(tiny, bank[:4])
    for prompt in bank[:4]:
        rendered = tiny.tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt.text}],
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
        )
        sequence = tiny.model.generate(**rendered, do_sample=False, max_new_tokens=96)[0]
        new_ids = sequence[rendered["input_ids"].shape[1] :]
        assert ours[prompt.prompt_id].text == tiny.tokenizer.decode(
            new_ids, skip_special_tokens=True
        )
        assert ours[prompt.prompt_id].response_tokens == len(new_ids)
        assert ours[prompt.prompt_id].prompt_tokens == rendered["input_ids"].shape[1]


def test_a_vanishing_temperature_answers_as_greedy_decoding_does(
    settle: Settle, bank: list[Prompt]
) -> None:
    cold = respond(settle(describe(temperature=1e-4, max_new_tokens=24)), bank[:4])
    assert cold == respond(settle(describe(max_new_tokens=24)), bank[:4])


def test_the_same_text_under_another_prompt_id_is_drawn_differently(
    settle: Settle, bank: list[Prompt]
) -> None:
    entrant = settle(describe(temperature=1.3, max_new_tokens=24))
    copies = [replace(bank[0], prompt_id=f"copy-{n}") for n in range(8)]
    responses = respond(entrant, copies, batch_size=8)
    assert len({response.text for response in responses.values()}) > 1
    assert responses == respond(entrant, copies, batch_size=8)


def test_the_cap_on_new_tokens_is_exact(settle: Settle, bank: list[Prompt]) -> None:
    for cap in (1, 5):
        (response,) = respond(settle(describe(max_new_tokens=cap)), bank[:1]).values()
        assert response.response_tokens == cap
        assert response.finish_reason == "length"


def test_a_response_the_model_ended_counts_its_end_token_and_does_not_show_it(
    settle: Settle, tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    (whole,) = respond(tiny, bank[:1]).values()
    assert whole.finish_reason == "stop"
    assert whole.response_tokens == len(tiny.tokenizer.encode(whole.text)) + 1
    assert "<|" not in whole.text
    n_tokens = whole.response_tokens
    (fits,) = respond(settle(describe(max_new_tokens=n_tokens)), bank[:1]).values()
    assert fits == whole
    (cut,) = respond(settle(describe(max_new_tokens=n_tokens - 1)), bank[:1]).values()
    assert (cut.text, cut.finish_reason) == (whole.text, "length")


def test_diagnostics_tell_how_a_response_came_about(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    (response,) = respond(tiny, bank[:1], batch_size=2).values()
    assert response.diagnostics == {
        "device": "cpu",
        "dtype": "float32",
        "seed": prompt_seed(bank[0].prompt_id),
        "batch_size": 2,
    }


def test_a_batch_is_handed_out_before_the_next_one_is_begun(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    model = RecordingModel(tiny.model)
    entrant = with_model(tiny, model, spec=describe(max_new_tokens=1))
    batches = generate_responses(entrant, bank[:6], batch_size=2)
    assert model.masks == []
    next(batches)
    assert len(model.masks) == 1


def test_no_prompts_give_no_batches(tiny: LoadedEntrant) -> None:
    assert list(generate_responses(tiny, [], batch_size=2)) == []


def test_running_out_of_memory_halves_the_batches_for_the_rest(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    model = RecordingModel(tiny.model, rows_in_memory=3)
    entrant = with_model(tiny, model, spec=describe(max_new_tokens=2))
    responses = respond(entrant, bank[:9], batch_size=8)
    assert {response.diagnostics["batch_size"] for response in responses.values()} == {2}
    assert len(responses) == 9
    assert [mask.shape[0] for mask in model.masks[:3]] == [8, 4, 2]
    assert all(mask.shape[0] == 2 for mask in model.masks[2:])


def test_a_prompt_that_does_not_fit_into_memory_alone_is_an_error(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    entrant = with_model(tiny, RecordingModel(tiny.model, rows_in_memory=0), spec=tiny.spec)
    with pytest.raises(GenerationError, match=r"\bcpu .* memory .*'recall"):
        respond(entrant, bank[:1], batch_size=2)


def test_prompts_beyond_the_context_are_all_refused_before_anything_is_generated(
    settle: Settle,
) -> None:
    prompts = [Prompt(prompt_id=f"long-{n}", text="a " * 400, source="test") for n in range(2)]
    with pytest.raises(InputError) as raised:
        generate_responses(settle(describe(max_new_tokens=300)), prompts, batch_size=2)
    assert len(raised.value.problems) == 2
    assert re.search(r"'long-0' .*\b512\b", raised.value.problems[0])


def test_a_batch_holds_at_least_one_prompt(tiny: LoadedEntrant, bank: list[Prompt]) -> None:
    with pytest.raises(InputError, match=r"batch_size .*\b0;"):
        generate_responses(tiny, bank, batch_size=0)


def test_the_system_prompt_is_read_before_the_prompt(settle: Settle, bank: list[Prompt]) -> None:
    (plain,) = respond(settle(describe(max_new_tokens=1)), bank[:1]).values()
    system = settle(describe(max_new_tokens=1, system_prompt="Be brief."))
    (instructed,) = respond(system, bank[:1]).values()
    assert plain.prompt_tokens is not None
    assert instructed.prompt_tokens is not None
    assert instructed.prompt_tokens > plain.prompt_tokens


def test_a_chat_template_that_refuses_a_role_is_explained(folder: Path, bank: list[Prompt]) -> None:
    template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    )
    (folder / "chat_template.jinja").write_text(template)
    spec = describe(system_prompt="Be brief.")
    entrant = build_entrant(spec, files=EntrantFiles(folder), device="cpu")
    with pytest.raises(InputError, match=r"system and user: no system;"):
        generate_responses(entrant, bank[:1], batch_size=1)


def test_sampling_settings_in_the_models_files_are_not_used(
    folder: Path, tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    path = folder / "generation_config.json"
    suggested = {"do_sample": True, "temperature": 5.0, "repetition_penalty": 9.0, "top_k": 3}
    path.write_text(json.dumps({**json.loads(path.read_text()), **suggested}))
    entrant = build_entrant(tiny.spec, files=EntrantFiles(folder), device="cpu")
    assert respond(entrant, bank[:2]) == respond(tiny, bank[:2])


@pytest.fixture(scope="module")
def residence() -> Residence:
    return Residence()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> EntrantFiles:
    return write_heads(tmp_path_factory.mktemp("heads"))


def build(spec: LocalEntrant, files: EntrantFiles, residence: Residence) -> LoadedEntrant:
    return build_entrant(spec, files=files, device="cpu", residence=residence)


def hydra_respond(
    entrant: LoadedEntrant, prompts: Sequence[Prompt], *, batch_size: int | None = 4
) -> dict[str, GeneratedResponse]:
    batches = generate_responses(entrant, prompts, batch_size=batch_size)
    return {response.prompt_id: response for batch in batches for response in batch}


def test_a_jurys_response_does_not_depend_on_its_batch_companions(
    files: EntrantFiles, residence: Residence, bank: list[Prompt]
) -> None:
    entrant = build(describe_hydra(needs_uncertainty=True), files, residence)
    prompts = bank[::12]
    together = hydra_respond(entrant, prompts)
    shuffled = random.Random(1).sample(prompts, len(prompts))
    assert hydra_respond(entrant, shuffled) == together
    for prompt in prompts[::4]:
        assert hydra_respond(entrant, [prompt]) == {prompt.prompt_id: together[prompt.prompt_id]}


def test_what_the_jury_did_is_kept_token_by_token(
    files: EntrantFiles, residence: Residence, bank: list[Prompt]
) -> None:
    entrant = build(describe_hydra(), files, residence)
    responses = hydra_respond(entrant, bank[:8])
    replaced = 0
    for response in responses.values():
        assert response.diagnostics["head"] in range(3)
        jury = response.diagnostics["jury"]
        columns = ("entropy", "overlap", "suppression", "margin", "stability_radius")
        assert {len(jury[name]) for name in columns} == {response.response_tokens}
        assert all(0 <= share <= 1 for share in jury["overlap"] + jury["suppression"])
        for row in jury["resampled"]:
            replaced += 1
            assert row["draft"] != row["replacement"]
            shown = response.text[row["start"] : row["end"]]
            # A replacement may be a special token or half a character, which text cannot show.
            assert shown.strip() in ("", row["replacement"]) or "\ufffd" in row["replacement"]
    assert replaced > 0


def test_one_head_alone_is_not_verified(
    files: EntrantFiles, residence: Residence, bank: list[Prompt]
) -> None:
    entrant = build(describe_hydra(bypass_jury=True, rob_checkpoint=None), files, residence)
    (response,) = hydra_respond(entrant, bank[:1]).values()
    assert response.diagnostics["head"] in range(3)
    assert "jury" not in response.diagnostics
    assert "p_correct" not in response.diagnostics


def test_a_response_tells_that_compiled_kernels_may_have_rounded_it(
    files: EntrantFiles, residence: Residence, bank: list[Prompt]
) -> None:
    entrant = build(describe_hydra(max_new_tokens=1), files, residence)
    assert "compiled" not in hydra_respond(entrant, bank[:1])[bank[0].prompt_id].diagnostics
    captured = CapturedRounds(CountingRecorder, compiler="eager")
    ((response,),) = generate_responses(entrant, bank[:1], batch_size=1, captured=captured)
    assert response.diagnostics["compiled"] is True


class FailingRecorder(CountingRecorder):
    """Records nothing, but not for lack of memory."""

    def record(self, play: Any) -> Any:  # noqa: ARG002
        raise RuntimeError("operation not permitted when stream is capturing")


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure memory as on a GPU: nothing compiles while a CPU's tensors are counted."""
    monkeypatch.setattr(responding, "measure_peak", lambda device: nullcontext(Peak(1)))


@pytest.mark.usefixtures("counters")
@pytest.mark.parametrize("batch_size", [2, None])
def test_what_cannot_be_captured_is_decoded_eagerly_with_one_warning(
    files: EntrantFiles, residence: Residence, bank: list[Prompt], batch_size: int | None
) -> None:
    entrant = build(describe_hydra(max_new_tokens=5), files, residence)
    warnings: list[str] = []
    responses = {
        each.prompt_id: each
        for batch in generate_responses(
            entrant,
            bank[:5],
            batch_size=batch_size,
            captured=CapturedRounds(FailingRecorder, compiler="eager"),
            warn=warnings.append,
        )
        for each in batch
    }
    assert responses == hydra_respond(entrant, bank[:5], batch_size=batch_size)
    assert len(warnings) == 1
    assert "stream is capturing" in warnings[0]


def test_a_recording_without_memory_halves_the_batch_and_goes_on_recording(
    files: EntrantFiles, residence: Residence, bank: list[Prompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    entrant = build(describe_hydra(max_new_tokens=5), files, residence)
    errors = [torch.OutOfMemoryError("CUDA out of memory")]

    class Recorder(CountingRecorder):
        def record(self, play: Any) -> Any:
            if errors:
                raise errors.pop()
            return super().record(play)

    captured = CapturedRounds(Recorder, compiler="eager")
    batches = list(generate_responses(entrant, bank[:3], batch_size=4, captured=captured))
    made = [each.diagnostics for batch in batches for each in batch]
    assert {(each["batch_size"], each["compiled"]) for each in made} == {(2, True)}


@pytest.mark.usefixtures("counters")
def test_a_batch_is_measured_by_the_rounds_that_will_run(
    files: EntrantFiles, residence: Residence, bank: list[Prompt]
) -> None:
    entrant = build(describe_hydra(max_new_tokens=5), files, residence)
    recorder = CountingRecorder()
    captured = CapturedRounds(lambda device: recorder, compiler="eager")
    generate_responses(entrant, bank[:3], batch_size=None, captured=captured)
    assert recorder.n_recorded == 1


def test_the_uncertainty_head_is_asked_about_every_response(
    files: EntrantFiles, residence: Residence, bank: list[Prompt]
) -> None:
    asked = hydra_respond(build(describe_hydra(needs_uncertainty=True), files, residence), bank[:6])
    silent = hydra_respond(build(describe_hydra(), files, residence), bank[:6])
    estimates = [response.diagnostics["p_correct"] for response in asked.values()]
    assert all(0 < estimate < 1 for estimate in estimates)
    assert len(set(estimates)) == 6
    for prompt_id, response in silent.items():
        assert response.text == asked[prompt_id].text


def test_a_second_prompt_beyond_the_context_has_no_estimate(
    files: EntrantFiles, residence: Residence, bank: list[Prompt]
) -> None:
    spec = describe_hydra(needs_uncertainty=True)
    assert spec.hydra.uncertainty is not None
    long = spec.hydra.uncertainty.model_copy(
        update={"correctness_prompt": "word " * 600 + "{prompt} {response}"}
    )
    spec = describe_hydra(
        needs_uncertainty=True, hydra=spec.hydra.model_copy(update={"uncertainty": long})
    )
    (response,) = hydra_respond(build(spec, files, residence), bank[:1]).values()
    assert response.diagnostics["p_correct"] is None


def test_entrants_on_the_same_weights_share_one_model(
    files: EntrantFiles, tmp_path: Path, bank: list[Prompt]
) -> None:
    residence = Residence()
    base = build(describe(), EntrantFiles(TINY), residence)
    before = hydra_respond(base, bank[:2])
    hydra = build(describe_hydra(), files, residence)
    assert hydra.model is base.model
    hydra_respond(hydra, bank[:2])
    assert hydra_respond(base, bank[:2]) == before
    elsewhere = EntrantFiles(Path(shutil.copytree(TINY, tmp_path / "copy")))
    assert build(describe(), elsewhere, residence).model is base.model


def test_everything_wrong_with_the_shards_is_told_with_the_entrants_name(
    tmp_path: Path, residence: Residence
) -> None:
    files = write_heads(tmp_path)
    write_shard({}, files.shards["security"][1])
    files.shards["robustness"][2].write_bytes(b"no tensors")
    with pytest.raises(InputError) as raised:
        build(describe_hydra(), files, residence)
    assert len(raised.value.problems) == 2
    assert all(problem.startswith("entrant 'poe': LoRA") for problem in raised.value.problems)


def test_a_batch_is_as_large_as_the_memory_allows(
    files: EntrantFiles,
    residence: Residence,
    bank: list[Prompt],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    poe = build(describe_hydra(max_new_tokens=2), files, residence)
    alone = build(describe_hydra(max_new_tokens=2, bypass_jury=True), files, residence)

    def sizes(entrant: LoadedEntrant, free: int) -> set[int]:
        monkeypatch.setattr(responding, "free_bytes", lambda device: free)
        responses = hydra_respond(entrant, bank[:3], batch_size=None)
        return {response.diagnostics["batch_size"] for response in responses.values()}

    assert sizes(poe, 10**12) == {4}
    assert sizes(poe, 1) == {1}
    room = next(n for n in range(20, 40) if sizes(poe, 2**n) == {2})
    assert sizes(poe, 2 ** (room + 1)) == {4}
    assert max(sizes(alone, 2**room)) > 2


CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate`"),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"
        ),
        MemoryError(),
    ],
)
def test_every_way_of_saying_that_memory_ran_out_is_understood(error: Exception) -> None:
    assert is_out_of_memory(error)


def test_what_ran_out_while_a_graph_was_recorded_is_found_behind_the_error_of_the_recording() -> (
    None
):
    error = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    assert not is_out_of_memory(error)
    error.__context__ = torch.OutOfMemoryError("CUDA out of memory")
    assert is_out_of_memory(error)


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    assert not is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))
    assert not is_out_of_memory(ValueError("out of memory"))


def test_the_peak_counts_what_is_alive_at_once_and_no_view() -> None:
    with torch.inference_mode(), measure_peak(CPU) as peak:
        given = torch.ones(250, 1000)  # a megabyte
        for _ in range(5):
            twice = given * 2
            part = twice[:100].t()
            part.add_(1)
            del twice, part
    assert peak.n_bytes == 2_000_000


def test_what_was_there_before_is_not_counted() -> None:
    weights = torch.ones(1000, 1000)
    with measure_peak(CPU) as peak:
        weights.t().mul_(2)
    assert peak.n_bytes == 0


def test_a_batch_is_the_largest_power_of_two_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    for free, rows in ((10**9, 16), (7_200_000, 4), (2_900_000, 2), (1, 1)):
        monkeypatch.setattr(
            "tournament_assets.generation.responding.free_bytes", lambda device, free=free: free
        )
        assert choose_batch_size(lambda: torch.ones(250, 1000), device=CPU) == rows


def test_prompts_of_real_banks_have_few_lengths_and_few_rows_are_copies() -> None:
    """As many tokens as the first turns of MT-bench, roughly: from 16 to 800, most of them few."""
    lengths = [padded_length(int(16 * 50 ** (n / 80) ** 1.5)) for n in range(80)]
    assert len({*lengths}) <= 5

    def copies(rows: int) -> float:
        n_rows = sum(-(-n // rows) * rows for n in Counter(lengths).values())
        return 1 - len(lengths) / n_rows

    assert copies(16) < 0.35
    assert copies(fit_batch_size(lengths, at_most=64, device=CPU)) < 0.35


def test_a_measured_batch_is_no_larger_than_it_is_worth() -> None:
    fit = partial(fit_batch_size, at_most=64)
    assert fit([64] * 3, device=CPU) == 4
    assert fit([64] * 640, device=CPU) == 64
    assert fit([64] * 33 + [128] * 3, device=CPU) < fit(
        [64] * 33 + [128] * 3, device=torch.device("cuda")
    )
    assert fit([64], at_most=1, device=CPU) == 1


def test_where_not_even_one_row_has_room_the_smallest_batch_is_chosen() -> None:
    def fail() -> None:
        raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED")

    assert choose_batch_size(fail, device=CPU) == 1


def test_any_other_error_of_the_trial_comes_out() -> None:
    def fail() -> None:
        raise RuntimeError("device-side assert")

    with pytest.raises(RuntimeError, match="device-side"):
        choose_batch_size(fail, device=CPU)


def test_this_machine_has_free_memory() -> None:
    assert free_bytes(CPU) > 0
