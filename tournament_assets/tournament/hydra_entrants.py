"""Entrants with many heads on one model: which LoRA shards they are made of, and how they decode.

A head is the last layers of a model with one shard of every adapter. Each shard lies in a file of
its own. Nothing is looked for here; `generation/models/entrant_weights.py` says what is missing.
An uncertainty head is asked by the correctness prompt whether a response is correct.
"""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.tournament.entrant_settings import (
    TEMPLATE_DATE,
    Precision,
    TemplateArguments,
    WrittenEntrant,
)
from tournament_assets.tournament.places import Frozen, Location

CORRECTNESS_PROMPT = (
    "Is the answer correct? Reply with A for yes or B for no.\n"
    "Question: {prompt}\n"
    "Answer: {response}"
)
"""What an uncertainty head is asked unless the configuration says otherwise."""

_MARK = re.compile(r"\{(prompt|response)\}")


def fill_in(template: str, *, prompt: str, response: str) -> str:
    """Put a prompt and its response into a correctness prompt.

    Both are put in as they stand, in one pass: braces in them mean nothing, a prompt that holds
    `{response}` among them. Other braces of the template stay too.

    Args:
        template: Such as `CORRECTNESS_PROMPT`; `{prompt}` and `{response}` mark where they belong.
        prompt: What was asked.
        response: What was answered.
    """
    texts = {"prompt": prompt, "response": response}
    return _MARK.sub(lambda mark: texts[mark[1]], template)


FINAL = -1
"""What `rob_checkpoint` says for the checkpoint that training ended with."""


class ShardFiles(Frozen):
    """Where the LoRA shards of one adapter are, and how it was trained.

    Attributes:
        folder: The folder they lie in.
        rank: The rank of every change.
        alpha: LoRA's alpha; twice the rank by default.
        files: The name of a head's file, where {head} stands for its number from 0 on; may hold
            the wildcards of a shell, which must then lead to one file.
        checkpoint_files: The same for an earlier checkpoint, where {step} stands for its step.
    """

    folder: Location
    rank: int = Field(ge=1)
    alpha: float | None = Field(default=None, gt=0)
    files: str = Field(default="shard_{head}_lora.pt", min_length=1)
    checkpoint_files: str | None = None

    @field_validator("files", "checkpoint_files")
    @classmethod
    def _names_files_below(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        try:
            fields = [name for _, name, _, _ in string.Formatter().parse(pattern) if name]
        except ValueError as error:
            raise ValueError(
                f"the pattern {pattern!r} cannot be read: {error}; "
                "expected a name such as 'shard_{head}_lora.pt'"
            ) from error
        unknown = sorted(set(fields) - {"head", "step"})
        if unknown:
            raise ValueError(
                f"the pattern {pattern!r} asks for {', '.join(unknown)}; "
                "expected only {head} and {step}"
            )
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise ValueError(
                f"the pattern {pattern!r} leads out of its folder; expected a name inside it"
            )
        return pattern

    @property
    def scale(self) -> float:
        """What a change is multiplied with: alpha divided by the rank."""
        return 2.0 if self.alpha is None else self.alpha / self.rank

    def needed(self, n_heads: int, *, step: int | None = None) -> "NeededShards":
        """Name which files are needed.

        Args:
            n_heads: How many heads there are.
            step: An earlier checkpoint; None for the final one.
        """
        pattern = self.files if step is None else str(self.checkpoint_files)
        names = tuple(pattern.format(head=head, step=step) for head in range(n_heads))
        return NeededShards(folder=self.folder, names=names)


@dataclass(frozen=True, slots=True)
class NeededShards:
    """The files of one adapter.

    Attributes:
        folder: Where they lie.
        names: What they are called there, the first for the first head; wildcards are possible.
    """

    folder: Location
    names: tuple[str, ...]


class UncertaintyFiles(ShardFiles):
    """Where the uncertainty head is: one shard, for all heads.

    Attributes:
        correctness_prompt: What it is asked about a response, with {prompt} and {response} in it,
            to be answered by A for correct or B; the words it was trained with.
    """

    files: str = Field(default="checkpoint_final.pt", min_length=1)
    correctness_prompt: str = CORRECTNESS_PROMPT

    @field_validator("correctness_prompt")
    @classmethod
    def _holds_both(cls, template: str) -> str:
        counts = {mark: template.count(mark) for mark in ("{prompt}", "{response}")}
        if set(counts.values()) != {1}:
            found = " and ".join(f"{mark} {count} times" for mark, count in counts.items())
            raise ValueError(f"the correctness prompt holds {found}; expected each once")
        return template


class HydraHeads(Frozen):
    """The heads that were trained for one base model.

    Attributes:
        heads_depth: Layers of a head, counted from the last.
        n_heads: Language heads.
        security: The adapter that each head was given first, trained on its own part of the data.
        robustness: The adapter on top of it.
        uncertainty: The head that judges how probable a response is correct.
    """

    heads_depth: int = Field(default=3, ge=1)
    n_heads: int = Field(default=9, ge=1)
    security: ShardFiles
    robustness: ShardFiles | None = None
    uncertainty: UncertaintyFiles | None = None

    @model_validator(mode="after")
    def _every_head_has_its_file(self) -> "HydraHeads":
        for name in ("security", "robustness"):
            shards: ShardFiles | None = getattr(self, name)
            if shards is None or self.n_heads == 1:
                continue
            for pattern in (shards.files, shards.checkpoint_files):
                if pattern is not None and "{head}" not in pattern:
                    raise ValueError(
                        f"{name} names {pattern!r} for {self.n_heads} heads; "
                        "expected {head} in it, so that each head has its own file"
                    )
        return self


class GeneratedEntrant(WrittenEntrant):
    """An entrant that is generated on this machine from a model's weights.

    Attributes:
        weights: The folder with `config.json`, the tokenizer and safetensors weights.
        template_date: The day that a chat template is told which asks for the date.
    """

    kind: ClassVar[str] = "pytorch"
    generates_here: ClassVar[bool] = True
    weights: Location
    template_date: date = Field(default=TEMPLATE_DATE, strict=False)

    @property
    def display_settings(self) -> JsonObject:
        """The settings without the date, which only some templates ask for."""
        settings = super().display_settings
        return {name: settings[name] for name in settings if name != "template_date"}

    @property
    def model_place(self) -> Location:
        """The folder with the weights."""
        return self.weights

    @property
    def needed_shards(self) -> Mapping[str, NeededShards]:
        """Which shards it is made of, by the name of the adapter; none by default."""
        return {}

    @property
    def adapter_folder(self) -> Location | None:
        """The folder of its LoRA adapter, if it has one."""
        return None

    @property
    def template_file(self) -> Location | None:
        """The file of its own chat template, if it has one."""
        return None

    @property
    def replaces_template(self) -> bool:
        """Whether its settings say which chat template is used, if any."""
        return False


class CustomPoeEntrant(GeneratedEntrant):
    """Heads on one model, decoded by one of them, or by all as a product of experts.

    Attributes:
        weights: The base model's folder, as for `vanilla_hf`.
        hydra: The heads.
        rob_checkpoint: Which checkpoint of the robustness adapter: None for none, -1 for the final
            one, else its step.
        bypass_jury: One drawn head speaks alone, and all its drafts stand.
        temperature: Sampling temperature; None decodes greedily.
        needs_uncertainty: Ask the uncertainty head about every response.
        beta: Weight of each verifier in the product. With 1 and eight verifiers that agree, the
            product is as sharp as one head at an eighth of the temperature; 1/8 undoes that.
        system_prompt: Put before the prompt in the chat template, if given.
        template_arguments: Further variables of the chat template, such as `enable_thinking:
            false`.
        dtype: The weights' precision; by default the generator's, which the device decides.
    """

    loader: Literal["custom_poe"]
    hydra: HydraHeads
    rob_checkpoint: int | None = Field(default=None, ge=FINAL)
    bypass_jury: bool = False
    temperature: float | None = Field(default=None, gt=0)
    needs_uncertainty: bool = False
    beta: float = Field(default=1.0, gt=0)
    system_prompt: str | None = None
    template_arguments: TemplateArguments | None = None
    dtype: Precision | None = None

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> "CustomPoeEntrant":
        problems = []
        robustness = self.hydra.robustness
        if self.rob_checkpoint is not None and robustness is None:
            problems.append(
                f"rob_checkpoint is {self.rob_checkpoint} and hydra.robustness is not given; "
                "expected its shards; name them, or leave rob_checkpoint out"
            )
        elif robustness is not None and self.robustness_step is not None:
            pattern = robustness.checkpoint_files
            if pattern is None or "{step}" not in pattern:
                problems.append(
                    f"rob_checkpoint is step {self.rob_checkpoint} and "
                    f"hydra.robustness.checkpoint_files is {pattern!r}; "
                    "expected a name with {step} in it"
                )
        if self.needs_uncertainty and self.hydra.uncertainty is None:
            problems.append(
                "needs_uncertainty is true and hydra.uncertainty is not given; "
                "expected its shard; name it, or leave needs_uncertainty out"
            )
        if self.bypass_jury and self.beta != 1:
            problems.append(
                f"bypass_jury is true with beta {self.beta}; "
                "expected no beta, because the jury is bypassed"
            )
        if not self.bypass_jury and self.hydra.n_heads < 2:
            problems.append(
                "hydra.n_heads is 1 and bypass_jury is false; "
                "expected at least two heads, one to draft and one to verify"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def robustness_step(self) -> int | None:
        """The step of an earlier robustness checkpoint; None for the final one, or for none."""
        return None if self.rob_checkpoint in (None, FINAL) else self.rob_checkpoint

    @property
    def adapters(self) -> Mapping[str, ShardFiles]:
        """The adapters of every language head by their names, in the order they were trained in."""
        used = {"security": self.hydra.security}
        if self.rob_checkpoint is not None and self.hydra.robustness is not None:
            used["robustness"] = self.hydra.robustness
        return used

    @property
    def uncertainty(self) -> UncertaintyFiles | None:
        """The uncertainty head, if it is asked."""
        return self.hydra.uncertainty if self.needs_uncertainty else None

    @property
    def needed_shards(self) -> Mapping[str, NeededShards]:
        """Which shards it is made of, by the name of the adapter; those of the heads come first."""
        needed = {
            name: files.needed(
                self.hydra.n_heads, step=self.robustness_step if name == "robustness" else None
            )
            for name, files in self.adapters.items()
        }
        if self.uncertainty is not None:
            needed["uncertainty"] = self.uncertainty.needed(1)
        return needed

    def fingerprint(self, content_hash: str) -> str:
        """SHA-256 of everything its responses depend on; where the files lie does not count."""
        settings = self.settings_without("weights", "hydra", "rob_checkpoint")
        asked = self.uncertainty
        heads = {
            "heads_depth": self.hydra.heads_depth,
            "n_heads": self.hydra.n_heads,
            "adapters": [[files.rank, files.scale] for files in self.adapters.values()],
            "uncertainty": asked and [asked.rank, asked.scale, asked.correctness_prompt],
        }
        if asked and self.strip:
            heads["asked_without"] = (
                self.strip
            )  # the head is asked about the response as it is read
        return fingerprint({"settings": settings, "heads": heads, "content": content_hash})
