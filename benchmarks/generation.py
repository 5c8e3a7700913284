"""Tokens per second of decoding with a jury, beside one head, the base model and plain `generate`.

    python -m benchmarks.generation [--preset cpu|7b|tiny] [--batch 1 8 32] [--checks]
        [--device cpu] [--budget SECONDS] [--markdown FILE]

A random model answers random prompts of 64 tokens with exactly as many tokens as it is asked for;
times include the reading of the prompts. Medians over rounds in one process; each round runs all
ways in a new random order, so compare the ratios: the times are those of the machine. `base` is
our decoder speaking as the base model greedily, which writes what `generate` writes. On a CPU the
last lines are the bound: how fast the products by the weights alone would go, for base and jury.

On CUDA our decoder's rounds are captured: compiled, recorded and replayed; what was recorded is
there before the clock starts. The table then also says what the device's bandwidth allows, as a
large copy reaches it: what each step has to read at least, as often a second as that can be read
(the roofline). `--checks` first compares the device with the CPU's law, and a greedy jury's
captured rounds with eager ones: where they first differ, the two tokens' scores lie within six
bfloat16 steps, or the command ends with 1. `--budget` begins nothing that would end too late; what
was not reached says "not run". `--preset tiny --device cpu --checks` is a dry run of all but what
is captured, in seconds.
"""

import argparse
import json
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from transformers import PreTrainedModel

from benchmarks.decoded_batches import decode
from benchmarks.generation_checks import (
    N_DRAWS,
    STEPS,
    law_p_value,
    like_eager,
    random_prompts,
    share_as_on_cpu,
)
from benchmarks.generation_models import (
    HEADS_DEPTH,
    N_HEADS,
    PRESETS,
    RANKS,
    Preset,
    build_models,
    bytes_per_step,
)
from tournament_assets.generation.hydra.decoded import DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.decoding import CapturedRounds
from tournament_assets.generation.hydra.hydra_model import HydraModel

PROMPT_LENGTH = 64
WARM_UP_TOKENS = 4
CHECKED_TOKENS = 24
TEMPERATURE = 0.98


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of the table.

    Attributes:
        batch: Prompts decoded together.
        way: Who writes.
        tokens_per_second: Of all rows together; the median.
        ratio: To plain `generate`; the median over rounds. None where that was not reached.
        roofline: Tokens per second that the device's bandwidth allows; None on a CPU.
        peak_gib: Most memory of the device that was in use, in GiB; None on a CPU.
    """

    batch: int
    way: str
    tokens_per_second: float
    ratio: float | None
    roofline: float | None
    peak_gib: float | None


Write = Callable[[int], int]
"""Writes so many tokens to each prompt, and returns how many it wrote to all."""


@dataclass(slots=True)
class Budget:
    """Time that may pass.

    Attributes:
        seconds: From the start; None for as many as it takes.
        started: When that was.
        was_short: Whether anything was left out.
    """

    seconds: float | None
    started: float
    was_short: bool = False

    def has_room_for(self, seconds: float) -> bool:
        """Say whether something may begin that takes about so long."""
        passed = time.perf_counter() - self.started
        if self.seconds is None or passed + seconds < self.seconds:
            return True
        self.was_short = True
        return False


def ways_to_write(
    model: PreTrainedModel,
    hydra: HydraModel,
    captured: CapturedRounds | None,
    *,
    n_tokens: int,
    batch: int,
) -> dict[str, Write]:
    """Let everybody answer the same prompts."""
    prompts = random_prompts(batch, n_tokens=n_tokens, length=PROMPT_LENGTH)
    on_device = torch.tensor([prompt.ids for prompt in prompts], device=hydra.device)

    def plain(new_tokens: int) -> int:
        with torch.inference_mode():
            written = model.generate(
                on_device,
                attention_mask=torch.ones_like(on_device),
                do_sample=False,
                min_new_tokens=new_tokens,
                max_new_tokens=new_tokens,
                pad_token_id=0,
            )
        return int(written[:, PROMPT_LENGTH:].numel())

    def ours(
        mode: DecodingMode,
        temperature: float | None,
        n_adapters: int,
        captured: CapturedRounds | None,
    ) -> Write:
        def write(new_tokens: int) -> int:
            settings = DecodingSettings(
                mode=mode,
                max_new_tokens=new_tokens,
                temperature=temperature,
                n_adapters=n_adapters,
            )
            written = decode(
                hydra,
                prompts,
                settings,
                n_rows=batch,
                prompt_length=PROMPT_LENGTH,
                captured=captured,
            )
            return sum(len(response.token_ids) for response in written.responses)

        return write

    jury = (DecodingMode.FULL_POE, TEMPERATURE, hydra.n_adapters)
    ways = {
        "generate": plain,
        "base": ours(DecodingMode.BASE, None, 0, captured),
        "one head": ours(DecodingMode.BYPASS_JURY, TEMPERATURE, hydra.n_adapters, captured),
        "full PoE": ours(*jury, captured),
    }
    if captured is not None:
        ways["PoE, eager"] = ours(*jury, None)
    if hydra.device.type == "cpu":
        ways["base, products"] = bare_products(model, batch=batch, jury=1)
        ways["PoE, products"] = bare_products(model, batch=batch, jury=N_HEADS)
    return ways


def bare_products(model: PreTrainedModel, *, batch: int, jury: int) -> Write:
    """Multiply by the weights that a token needs, and by nothing else: no attention, no law.

    Nobody who decodes a token at a time is faster on a CPU. The last layers and the projection to
    the vocabulary are the jury's, each of whose members adds its changes of low rank to a weight.
    """
    layers = model.model.layers
    own = [
        (weight, jury * batch if index >= len(layers) - HEADS_DEPTH else batch)
        for index, layer in enumerate(layers)
        for weight in _weights(layer)
    ]
    rank = sum(RANKS) if jury > 1 else 0
    changes = [
        (torch.randn(jury, weight.shape[1], rank), torch.randn(jury, rank, weight.shape[0]))
        for layer in layers[-HEADS_DEPTH:]
        for weight in _weights(layer)
        if rank
    ]
    own.append((model.lm_head.weight, jury * batch))
    rows = {weight.shape[1]: torch.randn(jury * batch, weight.shape[1]) for weight, _ in own}

    # The prompt: no projection to the vocabulary, and of the last layer only keys and values.
    last = {id(weight) for weight in _weights(layers[-1])[3:]} | {id(_weights(layers[-1])[0])}
    prompt = [each for each in own[:-1] if id(each[0]) not in last]
    prompt_rows = {width: torch.randn(jury * batch * PROMPT_LENGTH, width) for width in {*rows}}

    def write(new_tokens: int) -> int:
        with torch.inference_mode():
            for weight, n_rows in prompt:
                torch.mm(prompt_rows[weight.shape[1]][: n_rows * PROMPT_LENGTH], weight.mT)
            for _ in range(new_tokens):
                for weight, n_rows in own:
                    torch.mm(rows[weight.shape[1]][:n_rows], weight.mT)
                for down, up in changes:
                    of_each = rows[down.shape[1]].view(jury, batch, -1)
                    torch.bmm(torch.bmm(of_each, down), up)
        return batch * new_tokens

    return write


def _weights(layer: torch.nn.Module) -> list[torch.Tensor]:
    return [part.weight for part in layer.modules() if isinstance(part, torch.nn.Linear)]


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_once(write: Write, new_tokens: int, *, device: torch.device) -> tuple[float, float | None]:
    """Return tokens per second, and the peak of the device's memory in GiB."""
    on_cuda = device.type == "cuda"
    if on_cuda:
        torch.cuda.reset_peak_memory_stats(device)
    wait_for(device)
    started = time.perf_counter()
    n_written = write(new_tokens)
    wait_for(device)
    seconds = time.perf_counter() - started
    return n_written / seconds, torch.cuda.max_memory_allocated(device) / 2**30 if on_cuda else None


def measure_batch(
    model: PreTrainedModel,
    hydra: HydraModel,
    preset: Preset,
    *,
    batch: int,
    repeats: int,
    bandwidth: float | None,
    budget: Budget,
) -> list[Measured]:
    """Run all ways in turns, as long as there is time."""
    captured = CapturedRounds() if hydra.device.type == "cuda" else None
    ways = ways_to_write(model, hydra, captured, n_tokens=preset.n_tokens, batch=batch)
    new_tokens = preset.new_tokens
    warm_up = min(WARM_UP_TOKENS, new_tokens)
    expected: dict[str, float] = {}
    for way, write in ways.items():
        if budget.has_room_for(0):
            write(warm_up)
            started = time.perf_counter()
            write(warm_up)
            wait_for(hydra.device)
            # Twice as long as steps alone, for what is recorded on the way.
            expected[way] = 2 * (time.perf_counter() - started) * new_tokens / warm_up
    speeds: dict[str, list[tuple[int, float]]] = {way: [] for way in ways}
    peaks: dict[str, float | None] = {}
    for number in range(repeats):
        for way in random.sample(list(expected), len(expected)):
            if budget.has_room_for(expected[way]):
                if captured is not None:
                    captured.forget()  # so that each way's peak is its own
                    if way in CAPTURED:
                        ways[way](new_tokens)
                speed, peaks[way] = time_once(ways[way], new_tokens, device=hydra.device)
                speeds[way].append((number, speed))
                expected[way] = batch * new_tokens / speed
    plain = dict(speeds["generate"])
    return [
        Measured(
            batch=batch,
            way=way,
            tokens_per_second=statistics.median(speed for _, speed in own),
            ratio=statistics.median(ratios) if ratios else None,
            roofline=None if bandwidth is None else roofline(preset, way, batch, bandwidth),
            peak_gib=peaks[way],
        )
        for way, own in speeds.items()
        if own
        for ratios in [[speed / plain[number] for number, speed in own if number in plain]]
    ]


def roofline(preset: Preset, way: str, batch: int, bandwidth: float) -> float:
    """Return the tokens per second at which a step reads what it has to, and nothing else."""
    jury = "PoE" in way
    read = bytes_per_step(
        preset,
        batch=batch,
        n_slots=PROMPT_LENGTH + preset.new_tokens / 2,
        jury=N_HEADS if jury else 1,
        # One head's changes are gathered for each row.
        voices=N_HEADS if jury else batch if way == "one head" else 0,
    )
    return bandwidth * batch / read


def measure_bandwidth(device: torch.device) -> float | None:
    """Bytes per second that copying 2 GiB within the device reads and writes; None on a CPU."""
    if device.type != "cuda":
        return None
    source = torch.empty(2**31, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    seconds = []
    for _ in range(5):
        wait_for(device)
        started = time.perf_counter()
        target.copy_(source)
        wait_for(device)
        seconds.append(time.perf_counter() - started)
    return 2 * source.numel() / min(seconds)


WAYS = ("generate", "base", "one head", "full PoE", "PoE, eager")
CAPTURED = WAYS[1:4]
NOT_RUN = "not run"


def check_device(
    hydra: HydraModel, preset: Preset, batches: Sequence[int], budget: Budget
) -> tuple[dict[str, str], bool]:
    """Return what was found, by the name of each check, and whether all differences are rounding.

    What there was no time for is missing.
    """
    device = hydra.device
    found: dict[str, str] = {}
    is_rounding = True

    def check(name: str, measure: Callable[[], str]) -> None:
        if budget.has_room_for(0):
            found[name] = measure()
            print(f"{name}: {found[name]}", flush=True)

    check(LAW, lambda: f"p = {law_p_value(device, n_draws=N_DRAWS):.3f}")
    check(AS_ON_CPU, lambda: f"{share_as_on_cpu(device):.2%}")
    n_tokens = min(CHECKED_TOKENS, preset.new_tokens)
    for batch in batches if device.type == "cuda" else ():

        def measure(batch: int = batch) -> str:
            nonlocal is_rounding
            found = like_eager(
                hydra, CapturedRounds(), n_tokens=n_tokens, batch=batch, length=PROMPT_LENGTH
            )
            is_rounding &= found.is_rounding
            return str(found)

        check(as_eager(batch), measure)
    return found, is_rounding


LAW = f"law of the CPU, chi-square of {N_DRAWS} responses of a small jury"
AS_ON_CPU = "tokens as on the CPU, of a small jury in float32"


def as_eager(batch: int) -> str:
    """Name the check of captured rounds."""
    return f"greedy tokens as of eager rounds, batch {batch}"


def shown(value: float | None, form: str = ".2f") -> str:
    """Return a number, or that there is none."""
    return NOT_RUN if value is None else format(value, form)


def print_lines(lines: Sequence[Measured]) -> None:
    """Print one batch size."""
    for line in lines:
        limit = "" if line.roofline is None else f"{line.roofline:10.1f}"
        peak = "" if line.peak_gib is None else f"{line.peak_gib:9.2f}"
        print(
            f"{line.batch:5d}  {line.way:<18}{line.tokens_per_second:9.1f}{shown(line.ratio):>12}"
            f"{limit}{peak}",
            flush=True,
        )


def render_report(
    about: Mapping[str, object],
    lines: Sequence[Measured],
    preset: Preset,
    *,
    checks: Mapping[str, str],
    budget: Budget,
) -> str:
    """Return the tables as Markdown; what was not measured says so in place of every number."""
    said = ", ".join(f"{name} {value}" for name, value in about.items() if value is not None)
    measured = {(line.batch, line.way): line for line in lines}
    rows = []
    for batch in preset.batches:
        for way in WAYS:
            line = measured.get((batch, way))
            numbers = [NOT_RUN] * 5
            if line is not None:
                part = None if line.roofline is None else line.tokens_per_second / line.roofline
                numbers = [
                    shown(line.tokens_per_second, ".1f"),
                    shown(line.ratio),
                    shown(line.roofline, ".1f"),
                    shown(part),
                    shown(line.peak_gib),
                ]
            rows.append(f"| {batch} | {way} | {' | '.join(numbers)} |")
    named = [LAW, AS_ON_CPU, *map(as_eager, preset.batches)]
    short = f"The budget of {budget.seconds} s ended before all was measured."
    return "\n".join(
        [
            "# Generation on one GPU",
            "",
            "`make gpu` writes this page, in less than 8 minutes: a random model of OLMo-2-7B's",
            f"shape in bfloat16, nine heads, prompts of {PROMPT_LENGTH} tokens. First what is",
            "written, then how fast. Compiled kernels, which captured rounds replay, round",
            f"otherwise: greedily, where a response first differs, its tokens lie within {STEPS}",
            "bfloat16 steps. The roofline is how often a second the device could read a step's",
            "weights, changes and caches, at the speed of a large copy.",
            "",
            said or f"No CUDA device: {NOT_RUN}.",
            *(["", short] if budget.was_short else []),
            "",
            "| check | found |",
            "|---|---|",
            *(f"| {name} | {checks.get(name, NOT_RUN)} |" for name in named),
            "",
            "| batch | way | tok/s | × `generate` | roofline tok/s | part of it | peak GiB |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--preset", choices=PRESETS, default="cpu")
    parser.add_argument("--device", help="another device than the preset's, such as cpu")
    parser.add_argument("--checks", action="store_true", help="first check what is written")
    parser.add_argument("--budget", type=float, help="seconds after which nothing is begun")
    parser.add_argument("--batch", type=int, nargs="+", help="batch sizes")
    parser.add_argument("--new-tokens", type=int, help="tokens of each response")
    parser.add_argument("--vocabulary", type=int, help="another size of the vocabulary")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    parser.add_argument("--markdown", type=Path, help="also write it as a page")
    return parser.parse_args()


def main() -> None:
    """Measure every batch size, and print as soon as one is done."""
    arguments = parse_arguments()
    budget = Budget(arguments.budget, time.perf_counter())
    preset = chosen_preset(arguments)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    checks: dict[str, str] = {}
    lines: list[Measured] = []

    def write_page(about: Mapping[str, object]) -> None:
        # After each part: what was measured stays if the next one fails.
        if arguments.markdown:
            page = render_report(about, lines, preset, checks=checks, budget=budget)
            arguments.markdown.write_text(page, encoding="utf-8")

    if preset.device.startswith("cuda") and not torch.cuda.is_available():
        print(f"torch sees no CUDA device: {NOT_RUN}")
        if arguments.markdown and not arguments.markdown.exists():
            write_page({})
        return
    model, hydra = build_models(preset)
    bandwidth = measure_bandwidth(hydra.device)
    about = {
        "preset": arguments.preset,
        "device": torch.cuda.get_device_name(hydra.device) if bandwidth else "cpu",
        "parameters": hydra.n_parameters,
        "vocabulary": preset.n_tokens,
        "prompt_tokens": PROMPT_LENGTH,
        "new_tokens": preset.new_tokens,
        "repeats": arguments.repeats,
        "threads": torch.get_num_threads(),
        "load_before": os.getloadavg()[0],
        "bandwidth": bandwidth,
    }
    print("  ".join(f"{name} {value}" for name, value in about.items() if value is not None))
    is_rounding = True
    if arguments.checks:
        found, is_rounding = check_device(hydra, preset, preset.batches, budget)
        checks.update(found)
        write_page(about)
    on_cuda = "  roofline  peak GiB" if bandwidth else ""
    print(f"batch  way                   tok/s  x generate{on_cuda}")
    for batch in preset.batches:
        measured = measure_batch(
            model,
            hydra,
            preset,
            batch=batch,
            repeats=arguments.repeats,
            bandwidth=bandwidth,
            budget=budget,
        )
        print_lines(measured)
        lines += measured
        write_page(about)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # of KiB
    print(f"peak memory of the process {peak:.2f} GiB, load {os.getloadavg()[0]:.1f}")
    if arguments.json:
        table = {
            **about,
            "peak_process_gib": peak,
            "checks": checks,
            "lines": [asdict(line) for line in lines],
        }
        arguments.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    if not is_rounding:
        sys.exit(f"captured rounds differ by more than {STEPS} bfloat16 steps from eager ones")


def chosen_preset(arguments: argparse.Namespace) -> Preset:
    """Return the preset with what else was asked for."""
    preset = PRESETS[arguments.preset]
    if arguments.vocabulary:
        config = {**preset.config, "vocab_size": arguments.vocabulary}
        preset = replace(preset, config=config, n_tokens=arguments.vocabulary)
    return replace(
        preset,
        new_tokens=arguments.new_tokens or preset.new_tokens,
        batches=tuple(arguments.batch or preset.batches),
        device=arguments.device or preset.device,
    )


if __name__ == "__main__":
    main()
