"""Turns the description of an entrant into a model that can answer."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.input_files import read_input_text, reading
from tournament_assets.generation.hydra.hydra_model import HydraModel, answer_ids
from tournament_assets.generation.hydra.shards import head_shape, read_shards
from tournament_assets.generation.models.adapters import (
    LoadedAdapter,
    adapted_tokenizer,
    load_adapter,
)
from tournament_assets.generation.models.base_models import (
    LoadedBase,
    Residence,
    name_of,
    refuse_mismatch,
)
from tournament_assets.generation.models.chat_prompts import NO_TEMPLATE, AskedPrompt
from tournament_assets.generation.models.entrant_weights import (
    EntrantFiles,
    check_base,
    has_chat_template,
)
from tournament_assets.tournament.completions import (
    Completion,
    Reading,
    is_thought_mark,
    marks_among,
    opens_thought,
)
from tournament_assets.tournament.entrants import LocalEntrant, VanillaHfEntrant
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant, ShardFiles
from tournament_assets.tournament.prompts import GeneratedResponse

_END = 16
"""How many of a prompt's last tokens are searched for the opening of a thought."""


@dataclass(frozen=True, slots=True)
class LoadedEntrant:
    """A loaded entrant: its description and all that it needs to generate.

    Attributes:
        base: The model and its tokenizer, which several entrants may share.
        hydra: The model with its heads; None for `vanilla_hf`.
        adapter: The adapter that is put on the model while this entrant generates, if any.
        chat_template: Replaces the tokenizer's own chat template; None keeps it.
    """

    spec: LocalEntrant
    base: LoadedBase
    hydra: HydraModel | None = None
    adapter: LoadedAdapter | None = None
    chat_template: str | None = None

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"entrant {self.spec.entrant_id!r}"

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should look at, a sentence each."""
        return () if self.adapter is None else self.adapter.warnings

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that belongs to the model; it always has a padding token."""
        return self.base.tokenizer

    @property
    def model(self) -> Any:
        """The causal language model, in evaluation mode."""
        return self.base.model

    @property
    def device(self) -> str:
        """Where the model is."""
        return self.base.device

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The tokens that end a response: the tokenizer's and those the model's files name."""
        named: set[int] = set()
        for eos in (
            self.tokenizer.eos_token_id,
            getattr(self.model.config, "eos_token_id", None),
            getattr(self.text_config, "eos_token_id", None),
            self.model.generation_config.eos_token_id,
        ):
            if eos is not None:
                named.update(eos if isinstance(eos, list | tuple) else [eos])
        return tuple(sorted(named))

    @property
    def text_config(self) -> Any:
        """The language model's configuration, which multimodal models nest inside their own."""
        return self.model.config.get_text_config(decoder=True)

    @property
    def context(self) -> int | None:
        """The most tokens the model can read; None if its configuration does not say."""
        limit: int | None = getattr(self.text_config, "max_position_embeddings", None)
        return None if limit is None or limit < 0 else limit  # XLNet says -1

    def as_vanilla(self) -> VanillaHfEntrant:
        """Return the description of an entrant without heads."""
        if not isinstance(self.spec, VanillaHfEntrant):
            raise TypeError(f"{self.name} has heads; its loader is {self.spec.loader!r}")
        return self.spec

    def wearing(self) -> AbstractContextManager[None]:
        """Put this entrant's adapter, if any, on the model inside the `with` block."""
        return nullcontext() if self.adapter is None else self.adapter.put_on()

    def read(self, ids: Sequence[int], *, stop: Sequence[str] = ()) -> str:
        """Decode tokens to text, without special tokens and outer white space.

        All are decoded at once: decoding one by one would break multi-byte characters.

        Args:
            stop: Texts that end the response and are cut off.
        """
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        ends = [position for each in stop if (position := text.find(each)) >= 0]
        return text[: min(ends, default=None)].strip()

    def respond(
        self,
        prompt: AskedPrompt,
        ids: Sequence[int],
        *,
        end: str,
        stop: Sequence[str] = (),
        diagnostics: Mapping[str, Any],
    ) -> GeneratedResponse:
        """Return the response that a model wrote.

        Special tokens that tell thoughts apart stay in the text until it is read.

        Args:
            end: Why it ended: `stop` or `length`.
            stop: Texts that end the response and are cut off.
            diagnostics: What else is kept beside it.
        """
        special = {
            token: added.content
            for token, added in self.tokenizer.added_tokens_decoder.items()
            if added.special
        }
        marks = marks_among(special.values())
        text, run = "", list[int]()
        for token in ids:
            if token in special and is_thought_mark(special[token], marks):
                text, run = text + self.read(run) + special[token], []
            else:
                run.append(token)
        ending: str = self.tokenizer.decode(list(prompt.ids[-_END:]))
        completion = replace(
            Completion.of_text((text + self.read(run, stop=stop)).strip(), end=end),
            is_open=opens_thought(ending, marks),
            marks=marks,
        )
        response = GeneratedResponse(
            prompt_id=prompt.prompt_id,
            sample=prompt.sample,
            text="",
            finish_reason=end,
            prompt_tokens=len(prompt.ids),
            response_tokens=len(ids),
            diagnostics=diagnostics,
        ).read(completion, cuts_thoughts=self.spec.cuts_thoughts)
        if isinstance(response, Reading):
            raise TypeError(f"a response that ended with {end!r} has no text; expected one")
        return response

    def circumstances(
        self, *, seed: int, batch_size: int, is_compiled: bool = False
    ) -> dict[str, Any]:
        """Return where and how a response is generated, for its diagnostics."""
        return {
            "device": self.device,
            "dtype": name_of(self.base.dtype),
            "seed": seed,
            "batch_size": batch_size,
            **({"compiled": True} if is_compiled else {}),
        }


def build_entrant(
    spec: LocalEntrant,
    *,
    files: EntrantFiles,
    device: str,
    dtype: str = "auto",
    max_memory: Mapping[int | str, int] | None = None,
    residence: Residence | None = None,
) -> LoadedEntrant:
    """Load an entrant from its files, using no network and running no code in them.

    Args, where they are not those of `load_base`:
        residence: Shares loaded base models; by default one is loaded for this entrant alone.
    """
    name = f"entrant {spec.entrant_id!r}"
    if isinstance(spec, CustomPoeEntrant):
        depth = spec.hydra.heads_depth
        if problems := check_base(files.weights, heads_depth=depth, name=name):
            raise InputError(problems)
    template = _read_template(spec, files, name=name)
    is_beside_adapter = files.adapter is not None and has_chat_template(files.adapter)
    base = (residence or Residence()).load(
        files.weights,
        device=device,
        name=name,
        dtype=dtype,
        max_memory=max_memory,
        needs_template=template is None and not is_beside_adapter,
    )
    if template is None and not is_beside_adapter and base.tokenizer.chat_template is None:
        raise InputError(
            f"{name}: {str(files.weights)!r} has no chat template; expected the GGUF file of an "
            "instruction-tuned model, or the entrant's 'chat_template'; with 'none' a base model "
            "goes on with the prompt"
        )
    if base.is_spread and (files.shards or files.adapter):
        raise InputError(
            f"{name}: the model is larger than one card, and its heads or adapter have to be where "
            "their layers are; expected a card with room for the whole model"
        )
    if files.adapter is not None:
        adapter = load_adapter(base, files.adapter, name=name)
        tokenizer = adapted_tokenizer(base, files.adapter)
        refuse_mismatch(tokenizer, base.model, name=name)
        return LoadedEntrant(
            spec, base=replace(base, tokenizer=tokenizer), adapter=adapter, chat_template=template
        )
    hydra = None
    if isinstance(spec, CustomPoeEntrant):
        try:
            hydra = _put_heads_on(base, spec, files)
        except InputError as error:
            raise InputError(f"{name}: {problem}" for problem in error.problems) from error
    return LoadedEntrant(spec=spec, base=base, hydra=hydra, chat_template=template)


def _read_template(spec: LocalEntrant, files: EntrantFiles, *, name: str) -> str | None:
    if isinstance(spec, VanillaHfEntrant) and spec.chat_template == "none":
        return NO_TEMPLATE
    if files.chat_template is None:
        return None
    label = f"{name}: the chat template {str(files.chat_template)!r}"
    with reading(files.chat_template, "a Jinja template in UTF-8", label=label):
        text = read_input_text(files.chat_template)
    if not text.strip():
        raise InputError(
            f"{name}: the chat template {str(files.chat_template)!r} is empty; expected a Jinja "
            "template; say 'chat_template: none' to give the model the prompt as it stands"
        )
    return text


def _put_heads_on(base: LoadedBase, spec: CustomPoeEntrant, files: EntrantFiles) -> HydraModel:
    shape = head_shape(base.model, heads_depth=spec.hydra.heads_depth)
    described: dict[str, ShardFiles] = dict(spec.adapters)
    if spec.uncertainty is not None:
        described["uncertainty"] = spec.uncertainty
    read = {}
    problems = Problems()
    for adapter, shards in described.items():
        with problems.collected():
            read[adapter] = read_shards(
                files.shards[adapter], shape=shape, rank=shards.rank, scale=shards.scale
            )
    if spec.uncertainty is not None:
        with problems.collected():
            answer_ids(base.tokenizer)
    problems.raise_if_any()
    return HydraModel(
        base.model,
        n_tokens=len(base.tokenizer),
        heads_depth=spec.hydra.heads_depth,
        adapters=[read[adapter] for adapter in spec.adapters],
        uncertainty=read.get("uncertainty"),
    )
