import gc
import random
import shutil
import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest

from tournament_assets.generation import responding
from tournament_assets.generation.loading import LoadedEntrant, build_entrant
from tournament_assets.generation.models.base_models import Residence
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.generation.responding import generate_responses
from tournament_assets.tournament.entrants import LocalEntrant
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

from .builders import TINY, describe
from .hydra_builders import write_shard
from .hydra_projects import describe_hydra, write_heads


@pytest.fixture(scope="module")
def residence() -> Residence:
    return Residence()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> EntrantFiles:
    return write_heads(tmp_path_factory.mktemp("heads"))


def build(spec: LocalEntrant, files: EntrantFiles, residence: Residence) -> LoadedEntrant:
    return build_entrant(spec, files=files, device="cpu", residence=residence)


def respond(
    entrant: LoadedEntrant, prompts: Sequence[Prompt], *, batch_size: int | None = 4
) -> dict[str, GeneratedResponse]:
    batches = generate_responses(entrant, prompts, batch_size=batch_size)
    return {response.prompt_id: response for batch in batches for response in batch}


def test_a_response_does_not_depend_on_its_batch_companions(
    files: EntrantFiles, residence: Residence, bank: list[Prompt]
) -> None:
    entrant = build(describe_hydra(needs_uncertainty=True), files, residence)
    prompts = bank[::12]
    together = respond(entrant, prompts)
    shuffled = random.Random(1).sample(prompts, len(prompts))
    assert respond(entrant, shuffled) == together
    for prompt in prompts[::4]:
        assert respond(entrant, [prompt]) == {prompt.prompt_id: together[prompt.prompt_id]}


def test_what_the_jury_did_is_kept_token_by_token(
    files: EntrantFiles, residence: Residence, bank: list[Prompt]
) -> None:
    entrant = build(describe_hydra(), files, residence)
    responses = respond(entrant, bank[:8])
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
    (response,) = respond(entrant, bank[:1]).values()
    assert response.diagnostics["head"] in range(3)
    assert "jury" not in response.diagnostics
    assert "p_correct" not in response.diagnostics


def test_the_uncertainty_head_is_asked_about_every_response(
    files: EntrantFiles, residence: Residence, bank: list[Prompt]
) -> None:
    asked = respond(build(describe_hydra(needs_uncertainty=True), files, residence), bank[:6])
    silent = respond(build(describe_hydra(), files, residence), bank[:6])
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
    (response,) = respond(build(spec, files, residence), bank[:1]).values()
    assert response.diagnostics["p_correct"] is None


def test_entrants_on_the_same_weights_share_one_model(
    files: EntrantFiles, tmp_path: Path, bank: list[Prompt]
) -> None:
    residence = Residence()
    base = build(describe(), EntrantFiles(TINY), residence)
    before = respond(base, bank[:2])
    hydra = build(describe_hydra(), files, residence)
    assert hydra.model is base.model
    respond(hydra, bank[:2])
    assert respond(base, bank[:2]) == before
    elsewhere = EntrantFiles(Path(shutil.copytree(TINY, tmp_path / "copy")))
    assert build(describe(), elsewhere, residence).model is base.model


def test_a_model_leaves_the_memory_before_another_one_is_loaded(tmp_path: Path) -> None:
    residence = Residence()
    first = weakref.ref(residence.load(TINY, device="cpu", name="first").model)
    other = Path(shutil.copytree(TINY, tmp_path / "other"))
    (other / "generation_config.json").write_text("{}")
    residence.load(other, device="cpu", name="other")
    gc.collect()
    assert first() is None


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
        responses = respond(entrant, bank[:3], batch_size=None)
        return {response.diagnostics["batch_size"] for response in responses.values()}

    assert sizes(poe, 10**12) == {16}
    assert sizes(poe, 1) == {1}
    room = next(n for n in range(20, 40) if sizes(poe, 2**n) == {2})
    assert sizes(poe, 2 ** (room + 1)) == {4}
    assert max(sizes(alone, 2**room)) > 2
