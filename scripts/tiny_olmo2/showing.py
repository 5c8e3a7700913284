"""Prints what the heads of the tiny checkpoint do, as entrants that load what was saved."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tournament_assets.generation.loading import build_entrant
from tournament_assets.generation.models.entrant_weights import EntrantFiles, find_shards
from tournament_assets.generation.responding import generate_responses
from tournament_assets.tournament.entrants import VanillaHfEntrant
from tournament_assets.tournament.hydra_entrants import (
    CustomPoeEntrant,
    HydraHeads,
    ShardFiles,
    UncertaintyFiles,
)
from tournament_assets.tournament.places import Location
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

TEMPERATURE = 0.98
MAX_NEW_TOKENS = 96
BATCH_SIZE = 48


def show(
    out: Path,
    base: Path,
    prompts: Sequence[Prompt],
    answers: Sequence[dict[str, Any]],
    *,
    suffixes: Sequence[str],
) -> None:
    """Let every kind of entrant answer the bank, plain and with suffixes, and count.

    Args:
        out: The folder with the heads.
        base: The folder with the base checkpoint.
        prompts: The bank.
        answers: `answer` and `flawed_answer` of each prompt.
        suffixes: Put behind the prompts, one after the other; the first was trained with.
    """
    entrants = describe_entrants(out, base)
    believed: list[tuple[float, str]] = []
    for name, spec in entrants.items():
        responses = respond(spec, base, prompts)
        kinds = classify(responses, answers)
        print(f"{name}: {_counted(kinds)}{_jury(responses)}", flush=True)
        believed += [
            (response.diagnostics["p_correct"], kind)
            for response, kind in zip(responses, kinds, strict=True)
            if "p_correct" in response.diagnostics
        ]
    for kind in ("good", "flawed", "other"):
        own = [p for p, its_kind in believed if its_kind == kind]
        if own:
            print(f"p_correct of {len(own)} {kind} responses: {sum(own) / len(own):.3f} on average")
    for name, wrong_kinds in (("flawed", ("flawed",)), ("all others", ("flawed", "other"))):
        good = [p for p, kind in believed if kind == "good"]
        wrong = [p for p, kind in believed if kind in wrong_kinds]
        if good and wrong:
            print(f"AUC of good against {name}: {auc(good, wrong):.3f}", flush=True)
    for suffix in suffixes:
        print(f"with {suffix!r} behind every prompt:")
        changed = [replace(prompt, text=prompt.text + suffix) for prompt in prompts]
        for name, spec in entrants.items():
            update = {"needs_uncertainty": False} if isinstance(spec, CustomPoeEntrant) else {}
            kinds = classify(respond(spec.model_copy(update=update), base, changed), answers)
            print(f"  {name}: {_counted(kinds)}", flush=True)


def describe_entrants(out: Path, base: Path) -> Mapping[str, VanillaHfEntrant | CustomPoeEntrant]:
    """Describe the four kinds of entrants by their names."""
    weights = Location(path=str(base))
    files = "shard_{head}_lora.safetensors"
    hydra = HydraHeads(
        security=ShardFiles(folder=Location(path=str(out / "security")), rank=8, files=files),
        robustness=ShardFiles(folder=Location(path=str(out / "robustness")), rank=16, files=files),
        uncertainty=UncertaintyFiles(
            folder=Location(path=str(out / "uncertainty")),
            rank=16,
            files="checkpoint_final.safetensors",
        ),
    )
    poe = CustomPoeEntrant(
        entrant_id="full_poe",
        loader="custom_poe",
        weights=weights,
        hydra=hydra,
        rob_checkpoint=-1,
        temperature=TEMPERATURE,
        needs_uncertainty=True,
        max_new_tokens=MAX_NEW_TOKENS,
    )
    return {
        "base_olmo": VanillaHfEntrant(
            entrant_id="base_olmo",
            loader="vanilla_hf",
            weights=weights,
            max_new_tokens=MAX_NEW_TOKENS,
        ),
        "security_only": poe.model_copy(update={"bypass_jury": True, "rob_checkpoint": None}),
        "security_plus_robustness": poe.model_copy(update={"bypass_jury": True}),
        "full_poe": poe,
    }


def respond(
    spec: VanillaHfEntrant | CustomPoeEntrant, base: Path, prompts: Sequence[Prompt]
) -> list[GeneratedResponse]:
    """Load an entrant and let it answer, in the order of the prompts."""
    needed = spec.needed_shards if isinstance(spec, CustomPoeEntrant) else {}
    shards = {
        name: find_shards(files, Path(str(files.folder.path)), what=name)
        for name, files in needed.items()
    }
    entrant = build_entrant(spec, files=EntrantFiles(base, shards), device="cpu")
    batches = generate_responses(entrant, prompts, batch_size=BATCH_SIZE)
    found = {response.prompt_id: response for batch in batches for response in batch}
    return [found[prompt.prompt_id] for prompt in prompts]


def classify(
    responses: Sequence[GeneratedResponse], answers: Sequence[dict[str, Any]]
) -> list[str]:
    """Say of each response whether it is exactly the `good` or the `flawed` answer, or `other`."""
    kinds = []
    for response, row in zip(responses, answers, strict=True):
        kind = {row["answer"]: "good", row["flawed_answer"]: "flawed"}
        kinds.append(kind.get(response.text, "other"))
    return kinds


def auc(positives: Sequence[float], negatives: Sequence[float]) -> float:
    """Return the probability that a positive stands above a negative; a tie counts half."""
    wins = sum((p > n) + (p == n) / 2 for p in positives for n in negatives)
    return wins / (len(positives) * len(negatives))


def _counted(kinds: Sequence[str]) -> str:
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("good", "flawed", "other"))


def _jury(responses: Sequence[GeneratedResponse]) -> str:
    juries = [r.diagnostics["jury"] for r in responses if "jury" in r.diagnostics]
    if not juries:
        return ""
    n_tokens = sum(len(jury["entropy"]) for jury in juries)
    replaced = [len(jury["resampled"]) for jury in juries]
    return (
        f"; {sum(replaced)} of {n_tokens} tokens replaced, in {sum(map(bool, replaced))} responses"
    )
