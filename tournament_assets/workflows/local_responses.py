"""Responses generated on this machine, each kept in the ledger as it is done."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tournament_assets.generation.devices import device_problem
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.reports.progress_bars import GenerationProgress
from tournament_assets.tournament.config import GenerationConfig
from tournament_assets.tournament.entrants import LocalEntrant
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


@dataclass(frozen=True, slots=True)
class CompletedResponses:
    """An entrant's responses, and how many of them are new.

    Attributes:
        responses: In the order of the prompts.
        generated: How many were generated now; the others were in the ledger.
        device: Where, as a sentence.
        reasons: Why prompts have no response, by prompt id.
        figures: What else there is to know of how they came, by name, for metadata.
        warnings: What a person should look at, a sentence each.
    """

    responses: list[GeneratedResponse]
    generated: int
    device: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()


class GeneratorAccess(Protocol):
    """What generates on this machine; Dagster's resource is one."""

    @property
    def device(self) -> str:
        """`auto`, or a torch device such as `cuda:1` or `cpu`."""


def complete_responses(
    entrant: LocalEntrant,
    *,
    files: EntrantFiles,
    prompts: Sequence[Prompt],
    ledger: "Ledger",
    config: GenerationConfig,
    log: Callable[[str], None],
    device: str,
) -> CompletedResponses:
    """Take what the ledger holds, generate the rest, and keep each batch as it is done.

    Torch is loaded only if something is missing.

    Args:
        entrant: The model and its decoding settings.
        files: What it is loaded from.
        prompts: What to answer.
        ledger: Where responses are kept.
        config: How to generate.
        log: Told what is happening.
        device: `auto`, or a torch device such as `cuda:1` or `cpu`.
    """
    identity = entrant.fingerprint(files.fingerprint)
    by_fingerprint = {prompt.fingerprint: prompt for prompt in prompts}
    kept = ledger.responses(identity, by_fingerprint)
    missing = [prompt for key, prompt in by_fingerprint.items() if key not in kept]
    source = "nothing was generated: the ledger held every response"
    if missing:
        source = _generate(entrant, identity, files, missing, ledger, config, log, device)
        kept = ledger.responses(identity, by_fingerprint)
    return CompletedResponses(
        responses=[kept[key] for key in by_fingerprint if key in kept],
        generated=len(missing),
        device=source,
    )


def _generate(
    entrant: LocalEntrant,
    identity: str,
    files: EntrantFiles,
    missing: Sequence[Prompt],
    ledger: "Ledger",
    config: GenerationConfig,
    log: Callable[[str], None],
    device: str,
) -> str:
    from tournament_assets.generation.loading import build_entrant
    from tournament_assets.generation.models.base_models import RESIDENCE, pick_device
    from tournament_assets.generation.responding import generate_responses

    problem = device_problem(device, where="the generator's device")
    if problem is not None:
        raise InputError(problem)
    if device == "auto":
        picked = pick_device()
        device, reason = picked.device, picked.sentence
    else:
        reason = f"on {device}, as configured"
    log(f"{entrant.entrant_id} is generated {reason}")
    loaded = build_entrant(entrant, files=files, device=device, residence=RESIDENCE)
    fingerprints = {prompt.prompt_id: prompt.fingerprint for prompt in missing}
    with GenerationProgress(entrant.entrant_id, total=len(missing), log=log) as progress:
        batches = generate_responses(
            loaded,
            missing,
            batch_size=config.rows_per_batch,
            captured=config.cuda_graphs,
        )
        for batch in batches:
            ledger.keep_responses(
                identity, [(fingerprints[response.prompt_id], response) for response in batch]
            )
            progress.advance(
                len(batch), tokens=sum(response.response_tokens or 0 for response in batch)
            )
    return reason


def release_models() -> None:
    """Give the memory of a model back that this process has loaded, if it has."""
    base_models = sys.modules.get("tournament_assets.generation.models.base_models")
    if base_models is not None:
        base_models.RESIDENCE.clear()
