"""Responses generated on this machine, each kept in the ledger as it is done."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.generation.devices import (
    DTYPE_NAMES,
    Card,
    CardLease,
    card_index,
    cuda_cards,
    device_problem,
    forget_peak,
    lease_cards,
    lease_folder,
    taken_bytes,
)
from tournament_assets.generation.models.entrant_weights import EntrantFiles, count_parameters
from tournament_assets.reports.progress_bars import GenerationProgress
from tournament_assets.tournament.config import GenerationConfig
from tournament_assets.tournament.entrants import LocalEntrant
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt, answer_key

if TYPE_CHECKING:
    from tournament_assets.generation.hydra.decoding import CapturedRounds
    from tournament_assets.ledger import Ledger


@dataclass(frozen=True, slots=True)
class CompletedResponses:
    """An entrant's responses, and how many of them are new.

    Attributes:
        responses: In the order of the prompts.
        generated: How many were generated now; the others were in the ledger.
        device: Where, as a sentence.
        reasons: Why prompts have no response, by prompt id.
        figures: Further figures on how they were made, by name, for metadata.
        warnings: What a person should look at, a sentence each.
        settings: Further settings to show, by name.
    """

    responses: list[GeneratedResponse]
    generated: int
    device: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


class GeneratorAccess(Protocol):
    """What generates on this machine, and how; Dagster's resource is one."""

    @property
    def device(self) -> str:
        """`auto`, or a torch device such as `cuda:1` or `cpu`."""

    @property
    def dtype(self) -> str:
        """The weights' precision by name, where the entrant names none; `auto` for the device's."""

    @property
    def batch_size(self) -> int | None:
        """Prompts decoded together; None for what the config says."""

    @property
    def memory_share(self) -> float:
        """Of the free memory that a batch may fill."""


@dataclass(frozen=True, slots=True)
class Generator:
    """What generates on this machine; satisfies `GeneratorAccess` and says what that means."""

    device: str = "auto"
    dtype: str = "auto"
    batch_size: int | None = None
    memory_share: float = 0.7


def complete_responses(
    entrant: LocalEntrant,
    *,
    files: EntrantFiles,
    prompts: Sequence[Prompt],
    ledger: "Ledger",
    config: GenerationConfig,
    log: Callable[[str], None],
    generator: GeneratorAccess,
    kernels: Path,
) -> CompletedResponses:
    """Take what the ledger holds, generate the rest, and keep each batch as it is done.

    Torch is loaded only if something is missing. A prompt that is too long for the model is left
    out with its reason, as behind a server; if every prompt is, they are refused.

    Args:
        kernels: The folder of compiled kernels, if any are compiled.
    """
    identity = entrant.fingerprint(files.fingerprint)
    by_fingerprint = {prompt.fingerprint: prompt for prompt in prompts}
    stored = ledger.responses(identity, by_fingerprint, cuts_thoughts=entrant.cuts_thoughts)
    missing = [prompt for key, prompt in by_fingerprint.items() if key not in stored]
    source = "nothing was generated: the ledger held every response"
    work = Work()
    if missing:
        source = _generate(
            entrant,
            identity,
            files,
            missing,
            ledger,
            config,
            log,
            generator,
            kernels,
            work,
            set(_dtypes(stored)),
        )
        stored = ledger.responses(identity, by_fingerprint, cuts_thoughts=entrant.cuts_thoughts)
    responses = [stored[key] for key in by_fingerprint if key in stored]
    if work.too_long and not responses:
        raise InputError(work.too_long.values())
    dtypes = _dtypes(stored)
    if len(dtypes) > 1:
        mixed = " and ".join(f"{dtype} ({count})" for dtype, count in dtypes.most_common())
        work.warnings.append(
            f"its responses were generated in {mixed}, which differ as two entrants may; name the "
            "'dtype' of the entrant, and all are generated in it"
        )
    return CompletedResponses(
        responses=responses,
        generated=sum(prompt.fingerprint in stored for prompt in missing),
        device=source,
        reasons=work.too_long,
        figures={**work.figures, **_batch_size_of(responses)},
        warnings=work.warnings,
        settings=(
            {"template_date": entrant.template_date.isoformat()} if files.asks_for_date else {}
        ),
    )


def _dtypes(responses: Mapping[str, GeneratedResponse]) -> Counter[str]:
    """Count the responses by the precision that they were generated in, where that is known."""
    named = (response.diagnostics.get("dtype") for response in responses.values())
    return Counter(str(each) for each in named if each is not None)


@dataclass(slots=True)
class Work:
    """What generating took; nothing where nothing was generated.

    Attributes:
        seconds: From the first prompt to the last response; loading a model is left out.
        peak_bytes: The most memory that was taken: of the cards, or of this process.
        warnings: What a person should look at, a sentence each.
        too_long: Why prompts that do not fit into the model's context are left out, by id.
    """

    seconds: float = 0.0
    tokens: int = 0
    peak_bytes: int | None = None
    warnings: list[str] = field(default_factory=list)
    too_long: dict[str, str] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, float]:
        """What there is to plot, by name; a speed and a peak only where something was generated."""
        figures: dict[str, float] = {"generation_seconds": round(self.seconds, 2)}
        if self.seconds > 0 and self.tokens:
            figures["tokens_per_second"] = round(self.tokens / self.seconds, 2)
        if self.peak_bytes is not None:
            figures["peak_memory_gb"] = round(self.peak_bytes / 1e9, 3)
        return figures


def _batch_size_of(responses: Sequence[GeneratedResponse]) -> dict[str, int]:
    """Return the batch size that most responses were generated with, now or before."""
    sizes = Counter(
        size
        for response in responses
        if type(size := response.diagnostics.get("batch_size")) is int
    )
    return {"batch_size": sizes.most_common(1)[0][0]} if sizes else {}


def _generate(
    entrant: LocalEntrant,
    identity: str,
    files: EntrantFiles,
    missing: Sequence[Prompt],
    ledger: "Ledger",
    config: GenerationConfig,
    log: Callable[[str], None],
    generator: GeneratorAccess,
    kernels: Path,
    work: Work,
    before: AbstractSet[str],
) -> str:
    from tournament_assets.generation.loading import build_entrant
    from tournament_assets.generation.models.base_models import RESIDENCE, name_of, precision_on
    from tournament_assets.generation.responding import generate_responses

    _refuse_settings(generator)
    requested = entrant.dtype or generator.dtype
    place = find_place(generator, files, dtype=requested, log=log)
    dtype = name_of(precision_on(place.device, requested))
    if others := before - {dtype}:
        raise InputError(
            f"entrant {entrant.entrant_id!r} has responses generated in "
            f"{' and '.join(sorted(before))}, and {len(missing)} more would be generated in "
            f"{dtype}; expected one precision; set the generator's dtype to {min(others)!r} to go "
            f"on, or name the entrant's dtype ({dtype}), and all are generated in it"
        )
    log(f"{entrant.entrant_id} is generated {place.sentence}")
    forget_peak(place.device)
    loaded = build_entrant(
        entrant,
        files=files,
        device=place.device,
        dtype=dtype,
        max_memory=place.max_memory,
        residence=RESIDENCE,
    )
    work.warnings += loaded.warnings
    fingerprints = {answer_key(prompt): prompt.fingerprint for prompt in missing}
    with GenerationProgress(entrant.entrant_id, total=len(missing), log=log) as progress:
        began = time.monotonic()
        batches = generate_responses(
            loaded,
            missing,
            batch_size=generator.batch_size or config.rows_per_batch,
            captured=captured_on(place.device, config, kernels),
            memory_share=generator.memory_share,
            too_long=work.too_long,
            warn=work.warnings.append,
        )
        batch_began = time.monotonic()
        for batch in batches:
            share = (time.monotonic() - batch_began) / len(batch)
            ledger.keep_responses(
                identity,
                [(fingerprints[answer_key(each)], each.timed(share)) for each in batch],
            )
            n_tokens = sum(response.response_tokens or 0 for response in batch)
            progress.advance(len(batch), tokens=n_tokens)
            work.tokens += n_tokens
            work.seconds = time.monotonic() - began
            work.peak_bytes = max(work.peak_bytes or 0, taken_bytes(place.device))
            batch_began = time.monotonic()
    return place.sentence


def captured_on(device: str, config: GenerationConfig, kernels: Path) -> "CapturedRounds | None":
    """Return what captures rounds on a device; None where they run eagerly.

    Args:
        kernels: Where compiled kernels are kept, unless the environment names another folder.
    """
    if config.execution != "captured" or not device.startswith("cuda"):
        return None
    from tournament_assets.generation.hydra.decoding import CapturedRounds

    # Read when the first kernel is compiled; otherwise they are lost with the machine's own /tmp.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(kernels))
    return CapturedRounds()


def _refuse_settings(generator: GeneratorAccess) -> None:
    problems = Problems()
    if (problem := device_problem(generator.device, where="the generator's device")) is not None:
        problems.add(problem)
    if generator.batch_size is not None and generator.batch_size < 1:
        problems.add(f"the generator's batch_size is {generator.batch_size}; expected 1 or more")
    if not 0 < generator.memory_share <= 1:
        problems.add(
            f"the generator's memory_share is {generator.memory_share}; expected more than 0, at "
            "most 1"
        )
    if generator.dtype not in DTYPE_NAMES:
        problems.add(
            f"the generator's dtype is {generator.dtype!r}; expected one of "
            f"{', '.join(DTYPE_NAMES)}"
        )
    problems.raise_if_any()


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where a model goes.

    Attributes:
        device: Its device, or the first of several.
        sentence: Where and why, for people.
        max_memory: In bytes, of each of several cards that share the model; None for one device.
    """

    device: str
    sentence: str
    max_memory: Mapping[int | str, int] | None = None


_ROOM = 0.9
"""The share of a card's memory for weights; the rest is for caches and activations."""
_HELD: list[CardLease] = []
"""The cards that this process holds: none, or those that its model is on."""


def find_place(
    generator: GeneratorAccess,
    files: EntrantFiles,
    *,
    dtype: str,
    log: Callable[[str], None],
    look: Callable[[], Sequence[Card]] = cuda_cards,
    folder: Path | None = None,
) -> ModelPlace:
    """Find the device of a model, and hold its card until `release_models`.

    Args:
        dtype: The weights' precision by name, or `auto`.
        log: Called with a message if every card is taken.
        folder: Where the locks are; the one of this user by default.
    """
    from tournament_assets.generation.models.base_models import name_of, pick_device, precision_on

    if generator.device == "cpu":
        return ModelPlace("cpu", "on cpu, as configured")
    seen = look()
    if not seen and generator.device == "auto":
        picked = pick_device(dtype)
        return ModelPlace(picked.device, picked.sentence)
    if not seen:
        raise InputError(
            f"the generator's device is {generator.device!r}, and torch sees no CUDA card; "
            "expected one; install torch for CUDA and check nvidia-smi, or set "
            "TOURNAMENT_DEVICE=cpu"
        )
    weights = precision_on("cuda", dtype)
    needed = int(count_parameters(files.weights) * weights.itemsize / _ROOM)
    index = card_index(generator.device)
    # Cards that this process holds already are kept if they suffice.
    held = (
        each
        for each in _HELD
        if sum(seen[n].n_bytes for n in each.indices) >= needed and index in (None, *each.indices)
    )
    if (lease := next(held, None)) is None:
        release_models()
        place = folder or lease_folder()
        lease = lease_cards(seen, needed_bytes=needed, folder=place, index=index, log=log)
        _HELD.append(lease)
    first, *others = lease.indices
    card = seen[first]
    precision = name_of(weights)
    if others:
        room: dict[int | str, int] = {
            n: int(n_free * _ROOM) for n, n_free in zip(lease.indices, lease.free, strict=True)
        }
        sentence = f"on {len(room)} cards in {precision}: the model is larger than one of them"
        return ModelPlace(f"cuda:{first}", sentence, max_memory=room)
    return ModelPlace(
        f"cuda:{first}",
        f"on {card.title} (cuda:{first}, {card.n_bytes / 1e9:.0f} GB) in {precision}: "
        f"{len(seen)} CUDA card{'s are' if len(seen) > 1 else ' is'} there",
    )


def release_models() -> None:
    """Free the model that this process has loaded, if any, and its cards."""
    base_models = sys.modules.get("tournament_assets.generation.models.base_models")
    if base_models is not None:
        base_models.RESIDENCE.clear()
    while _HELD:
        _HELD.pop().give_back()
