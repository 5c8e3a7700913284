"""Tokens per second of decoding with a jury, beside one head, the base model and plain `generate`.

    python -m benchmarks.generation [--preset cpu|7b] [--batch 1 8 32] [--markdown FILE]

A random model answers random prompts of 64 tokens with exactly as many tokens as it is asked for;
times include the reading of the prompts. Medians over rounds in one process; each round runs all
ways in a new random order, so compare the ratios: the times are those of the machine. `base` is
our decoder speaking as the base model greedily, which writes what `generate` writes.

On CUDA our decoder's rounds are recorded and replayed, after both ways of playing them have written
the same tokens. The table then also says which part of the device's bandwidth is reached, counting
what each step has to read at least, and bandwidth as a large copy reaches it.
"""

import argparse
import json
import os
import random
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from transformers import PreTrainedModel

from benchmarks.generation_models import N_HEADS, PRESETS, Preset, build_models, bytes_per_step
from tournament_assets.generation.hydra.decoded import DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.decoding import DecodedBatch, Execution, decode
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.models.chat_prompts import EncodedPrompt

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
        ratio: To plain `generate`; the median over rounds.
        bandwidth_share: Part of the device's bandwidth; None where it was not measured.
        peak_gib: Most memory of the device that was in use, in GiB; None on a CPU.
    """

    batch: int
    way: str
    tokens_per_second: float
    ratio: float
    bandwidth_share: float | None
    peak_gib: float | None


Write = Callable[[int], int]
"""Writes so many tokens to each prompt, and returns how many it wrote to all."""


def ways_to_write(
    model: PreTrainedModel, hydra: HydraModel, *, n_tokens: int, batch: int
) -> dict[str, Write]:
    """Let everybody answer the same prompts."""
    generator = torch.Generator().manual_seed(batch)
    ids = torch.randint(n_tokens, (batch, PROMPT_LENGTH), generator=generator)
    prompts = [EncodedPrompt(ids=tuple(row), seed=n) for n, row in enumerate(ids.tolist())]
    on_device = ids.to(hydra.device)
    on_cuda = hydra.device.type == "cuda"

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

    def ours(mode: DecodingMode, temperature: float | None, n_adapters: int) -> Write:
        def answer(new_tokens: int, *, captured: bool) -> DecodedBatch:
            settings = DecodingSettings(
                mode=mode,
                max_new_tokens=new_tokens,
                temperature=temperature,
                n_adapters=n_adapters,
            )
            return decode(
                hydra,
                prompts,
                settings,
                n_rows=batch,
                prompt_length=PROMPT_LENGTH,
                execution=Execution.on(hydra.device.type, captured=captured),
            )

        if on_cuda and (
            answer(CHECKED_TOKENS, captured=True).responses
            != answer(CHECKED_TOKENS, captured=False).responses
        ):
            raise SystemExit(
                f"{mode} at batch {batch}: recorded rounds wrote other responses than played ones; "
                "leave generation.cuda_graphs off on this machine"
            )

        def write(new_tokens: int) -> int:
            written = answer(new_tokens, captured=on_cuda)
            return sum(len(response.token_ids) for response in written.responses)

        return write

    return {
        "generate": plain,
        "base": ours(DecodingMode.BASE, None, 0),
        "one head": ours(DecodingMode.BYPASS_JURY, TEMPERATURE, hydra.n_adapters),
        "full PoE": ours(DecodingMode.FULL_POE, TEMPERATURE, hydra.n_adapters),
    }


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
) -> list[Measured]:
    """Run all ways in turns."""
    ways = ways_to_write(model, hydra, n_tokens=preset.n_tokens, batch=batch)
    new_tokens = preset.new_tokens
    for write in ways.values():
        write(min(WARM_UP_TOKENS, new_tokens))
    speeds: dict[str, list[float]] = {way: [] for way in ways}
    peaks: dict[str, float | None] = {}
    for _ in range(repeats):
        for way in random.sample(list(ways), len(ways)):
            speed, peaks[way] = time_once(ways[way], new_tokens, device=hydra.device)
            speeds[way].append(speed)
    lines = []
    for way, own in speeds.items():
        pairs = zip(own, speeds["generate"], strict=True)
        speed = statistics.median(own)
        share = None
        if bandwidth is not None:
            jury = way == "full PoE"
            read = bytes_per_step(
                preset,
                batch=batch,
                n_slots=PROMPT_LENGTH + new_tokens / 2,
                jury=N_HEADS if jury else 1,
                # One head's changes are gathered for each row.
                voices=N_HEADS if jury else batch if way == "one head" else 0,
            )
            share = read * speed / batch / bandwidth
        lines.append(
            Measured(
                batch=batch,
                way=way,
                tokens_per_second=speed,
                ratio=statistics.median(ours / plain for ours, plain in pairs),
                bandwidth_share=share,
                peak_gib=peaks[way],
            )
        )
    return lines


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


def print_lines(lines: Sequence[Measured]) -> None:
    """Print one batch size."""
    for line in lines:
        share = "" if line.bandwidth_share is None else f"{line.bandwidth_share:10.2f}"
        peak = "" if line.peak_gib is None else f"{line.peak_gib:9.2f}"
        print(
            f"{line.batch:5d}  {line.way:<9}{line.tokens_per_second:9.1f}{line.ratio:12.2f}"
            f"{share}{peak}",
            flush=True,
        )


WAYS = ("generate", "base", "one head", "full PoE")
NOT_RUN = "not run"


def render_report(about: Mapping[str, object], lines: Sequence[Measured], preset: Preset) -> str:
    """Return the table as Markdown; what was not measured says so in place of every number."""
    shown = ", ".join(f"{name} {value}" for name, value in about.items() if value is not None)
    measured = {(line.batch, line.way): line for line in lines}
    rows = []
    for batch in preset.batches:
        for way in WAYS:
            line = measured.get((batch, way))
            numbers = [NOT_RUN] * 4
            if line is not None:
                numbers = [f"{line.tokens_per_second:.1f}", f"{line.ratio:.2f}"] + [
                    NOT_RUN if value is None else f"{value:.2f}"
                    for value in (line.bandwidth_share, line.peak_gib)
                ]
            rows.append(f"| {batch} | {way} | {' | '.join(numbers)} |")
    return "\n".join(
        [
            "# Generation on one GPU",
            "",
            "`make gpu` writes this page: a random model of OLMo-2-7B's shape in bfloat16, nine",
            f"heads, prompts of {PROMPT_LENGTH} tokens. Recorded rounds (CUDA graphs) wrote the",
            "tokens of played ones before anything was timed, or the run ended there. `bandwidth`",
            "is the part of the device's, as a large copy reaches it, that a step's weights,",
            "changes and caches need at least.",
            "",
            shown or f"No CUDA device: {NOT_RUN}.",
            "",
            "| batch | way | tok/s | × `generate` | bandwidth | peak GiB |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--preset", choices=PRESETS, default="cpu")
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
    preset = PRESETS[arguments.preset]
    if arguments.vocabulary:
        config = {**preset.config, "vocab_size": arguments.vocabulary}
        preset = replace(preset, config=config, n_tokens=arguments.vocabulary)
    preset = replace(preset, new_tokens=arguments.new_tokens or preset.new_tokens)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if preset.device == "cuda" and not torch.cuda.is_available():
        print(f"torch sees no CUDA device: {NOT_RUN}")
        if arguments.markdown and not arguments.markdown.exists():
            arguments.markdown.write_text(render_report({}, [], preset), encoding="utf-8")
        return
    model, hydra = build_models(preset)
    bandwidth = measure_bandwidth(hydra.device)
    about = {
        "preset": arguments.preset,
        "device": torch.cuda.get_device_name() if bandwidth else "cpu",
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
    on_cuda = "   bandwidth  peak GiB" if bandwidth else ""
    print(f"batch  way          tok/s  x generate{on_cuda}")
    lines: list[Measured] = []
    for batch in arguments.batch or preset.batches:
        lines += measure_batch(
            model, hydra, preset, batch=batch, repeats=arguments.repeats, bandwidth=bandwidth
        )
        print_lines(lines[-4:])
        if (
            arguments.markdown
        ):  # after each batch size: what was measured stays if the next one fails
            arguments.markdown.write_text(render_report(about, lines, preset), encoding="utf-8")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # of KiB
    print(f"peak memory of the process {peak:.2f} GiB, load {os.getloadavg()[0]:.1f}")
    if arguments.json:
        table = {**about, "peak_process_gib": peak, "lines": [asdict(line) for line in lines]}
        arguments.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
