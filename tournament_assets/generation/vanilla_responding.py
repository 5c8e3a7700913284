"""Decodes a batch with transformers' own `generate`, token by token.

Every prompt has its own generator, seeded by its id, which draws one uniform number per position
before decoding starts. A token is drawn by inverse CDF at that number. So a response depends on its
prompt and its entrant alone: not on its batch, on earlier responses, or on a global seed.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteriaList,
    StopStringCriteria,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from tournament_assets.foundation.errors import GenerationError, InputError
from tournament_assets.generation.hydra.decoding import draw_uniforms
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.product_of_experts import draft_probabilities, draw
from tournament_assets.generation.loading import LoadedEntrant
from tournament_assets.generation.models.base_models import (
    decoding_threads,
    transformers_logging_off,
)
from tournament_assets.generation.models.chat_prompts import AskedPrompt
from tournament_assets.tournament.entrants import VanillaHfEntrant
from tournament_assets.tournament.prompts import GeneratedResponse


def draw_tokens(logits: Tensor, *, uniforms: Tensor, temperature: float) -> Tensor:
    """Draw one token per row from softmax(logits / temperature) by inverse CDF, in float64.

    Args:
        logits: Scores, shape (n_rows, vocabulary); -inf is never drawn.
        uniforms: One number in [0, 1) per row, shape (n_rows,).
        temperature: Divides the logits; towards 0 it draws the most probable token.

    Returns:
        Token ids, shape (n_rows,).
    """
    return draw(draft_probabilities(logits, temperature=temperature), uniforms.to(logits.device))


class TokenPicker(LogitsProcessor):  # type: ignore[misc]  # transformers is untyped
    """Leaves only the drawn token of each row unmasked, so that greedy decoding takes it.

    Ghost tokens, which a vocabulary padded for speed has beyond the tokenizer's last one, are
    masked first: their logits mean nothing. The distribution is narrowed by transformers' own
    processors, in the order in which `generate` applies them.

    Attributes:
        n_tokens: Tokens the tokenizer knows; ids from here on are ghosts.
        prompt_length: Padded length of the prompts, in tokens.
        temperature: Sampling temperature; None decodes greedily.
        uniforms: Random numbers, shape (n_rows, n_positions); None with temperature None.
        prompt_ids: Tokens that count as said before the response, shape (n_rows, prompt_length);
            None for the padded prompts.
        penalties: Processors that change the scores of tokens already said.
        warpers: Processors that narrow the distribution, including the temperature.
    """

    def __init__(
        self,
        *,
        n_tokens: int,
        prompt_length: int,
        temperature: float | None,
        uniforms: Tensor | None,
        prompt_ids: Tensor | None = None,
        penalties: Sequence[LogitsProcessor] = (),
        warpers: Sequence[LogitsProcessor] = (),
    ) -> None:
        if (temperature is None) != (uniforms is None):
            raise ValueError("temperature and uniforms are either both given or both None")
        self.n_tokens = n_tokens
        self.prompt_length = prompt_length
        self.temperature = temperature
        self.uniforms = uniforms
        self.prompt_ids = prompt_ids
        self.penalties = LogitsProcessorList(penalties)
        self.warpers = LogitsProcessorList(warpers)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Mask what must not be decoded at this position.

        Args:
            input_ids: Prompt and response so far, shape (n_rows, n_tokens_so_far).
            scores: The model's logits, shape (n_rows, vocabulary).
        """
        usable = scores[:, : self.n_tokens]
        if not bool(usable.amax(dim=-1).isfinite().all()):
            raise GenerationError(
                "the model's logits hold NaN or infinity; expected numbers; the weights are "
                "broken, or too large for this precision"
            )
        if self.penalties:
            usable = self.penalties(self._said(input_ids), usable)
        masked = torch.full_like(scores, float("-inf"))
        if self.temperature is None or self.uniforms is None:
            masked[:, : self.n_tokens] = usable
            return masked
        position = input_ids.shape[1] - self.prompt_length
        drawn = draw_tokens(
            self.warpers(input_ids, usable) if self.warpers else usable,
            uniforms=self.uniforms[:, position],
            # One of the warpers is the temperature.
            temperature=1.0 if self.warpers else self.temperature,
        )
        return masked.scatter_(1, drawn[:, None], 0.0)

    def _said(self, input_ids: Tensor) -> Tensor:
        if self.prompt_ids is None:
            return input_ids
        return torch.cat([self.prompt_ids, input_ids[:, self.prompt_length :]], dim=1)


def penalties_of(spec: VanillaHfEntrant) -> list[LogitsProcessor]:
    """Return transformers' processors that penalise tokens already said."""
    penalty = spec.repetition_penalty
    return [] if penalty is None else [RepetitionPenaltyLogitsProcessor(penalty)]


def warpers_of(spec: VanillaHfEntrant) -> list[LogitsProcessor]:
    """Return transformers' processors that narrow the distribution, in `generate`'s order.

    The list is empty if only the temperature is given, which `draw_tokens` applies itself.
    """
    narrowing = [
        warper(value)
        for warper, value in (
            (TopKLogitsWarper, spec.top_k),
            (TopPLogitsWarper, spec.top_p),
            (MinPLogitsWarper, spec.min_p),
        )
        if value is not None
    ]
    if not narrowing or spec.temperature is None:
        return []
    return [TemperatureLogitsWarper(spec.temperature), *narrowing]


class ResponseEnd(StopStringCriteria):  # type: ignore[misc]  # transformers is untyped
    """Ends a row whose response holds a stop string, and remembers where.

    A part of a special token's name is no text, and ends nothing; the whole name does.

    Attributes:
        n_written: Tokens of each row when it ended, shape (n_rows,); 0 where it has not ended.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str], *, prompt_length: int) -> None:
        super().__init__(tokenizer, list(stop))
        self._prompt_length = prompt_length
        self._tokenizer = tokenizer
        special = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
        self._names = {each for each in stop if any(name in each for name in special)}
        self.n_written: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        """Return which rows end here; the end of the prompt does not count."""
        response = input_ids[:, self._prompt_length :]
        is_over: Tensor = super().__call__(response, scores, **kwargs)
        for row in is_over.nonzero().flatten().tolist():
            is_over[row] = self._is_said(response[row].tolist())
        if self.n_written is None:
            self.n_written = torch.zeros_like(is_over, dtype=torch.long)
        self.n_written += is_over * (self.n_written == 0) * response.shape[1]
        return is_over

    def _is_said(self, ids: list[int]) -> bool:
        """Return whether a response holds a stop string that is text, or names a special token."""
        text = self._tokenizer.decode(ids, skip_special_tokens=True)
        if any(each in text for each in self.stop_strings):
            return True
        marked = self._tokenizer.decode(ids) if self._names else ""
        return any(name in marked for name in self._names)


def respond_with_generate(
    entrant: LoadedEntrant, batch: Sequence[AskedPrompt], batch_size: int
) -> list[GeneratedResponse]:
    """Answer the prompts of one batch, all of one padded length.

    Args:
        batch: One to `batch_size` prompts.
        batch_size: Rows of the batch; a batch that is not full is filled up.
    """
    # Dummy rows repeat the last prompt, so they end when it ends.
    rows = [*batch, *[batch[-1]] * (batch_size - len(batch))]
    ids, mask = _pad_left(rows, pad_id=entrant.tokenizer.pad_token_id)
    spec = entrant.as_vanilla()
    uniforms = None
    if spec.temperature is not None:
        seeds = [row.seed for row in rows]
        uniforms = draw_uniforms(seeds, n_positions=spec.max_new_tokens).to(entrant.device)
    # Padding does not count as said, so it is not penalised.
    unpadded = torch.where(mask.bool(), ids, ids[:, -1:]).to(entrant.device)
    picker = TokenPicker(
        n_tokens=len(entrant.tokenizer),
        prompt_length=ids.shape[1],
        temperature=spec.temperature,
        uniforms=uniforms,
        prompt_ids=unpadded,
        penalties=penalties_of(spec),
        warpers=warpers_of(spec),
    )
    end = None
    if spec.stop is not None:
        end = ResponseEnd(entrant.tokenizer, spec.stop, prompt_length=ids.shape[1])
    with (
        transformers_logging_off(),
        decoding_threads(entrant.model.num_parameters()),
        entrant.wearing(),
        torch.inference_mode(),
    ):
        sequences = entrant.model.generate(
            input_ids=ids.to(entrant.device),
            attention_mask=mask.to(entrant.device),
            generation_config=_decoding(entrant),
            logits_processor=LogitsProcessorList([picker]),
            stopping_criteria=StoppingCriteriaList([end] if end else []),
        )  # (batch_size, prompt_length + n_new_tokens)
    written = sequences[: len(batch), ids.shape[1] :].tolist()
    stopped = [0] * len(batch) if end is None or end.n_written is None else end.n_written.tolist()
    return [
        _read_response(entrant, prompt, new_ids, batch_size=batch_size, stopped_at=stopped_at)
        for prompt, new_ids, stopped_at in zip(batch, written, stopped, strict=False)
    ]


def as_base_model(entrant: LoadedEntrant) -> HydraModel | None:
    """Return a plain entrant's model as `decode` reads it; None where only `generate` plays it.

    `decode` plays OLMo-2 on one device, greedily or by the temperature alone.
    """
    spec = entrant.as_vanilla()
    is_quantised = getattr(entrant.model, "hf_quantizer", None) is not None
    if (
        entrant.adapter
        or entrant.base.is_spread
        or is_quantised
        or spec.stop
        or penalties_of(spec)
        or warpers_of(spec)
    ):
        return None
    try:
        return HydraModel(entrant.model, n_tokens=len(entrant.tokenizer), heads_depth=1)
    except InputError:
        return None


def _pad_left(rows: Sequence[AskedPrompt], *, pad_id: int) -> tuple[Tensor, Tensor]:
    """Return ids and attention mask, both (n_rows, padded_length)."""
    length = rows[0].padded_length
    ids = torch.full((len(rows), length), pad_id)
    mask = torch.zeros((len(rows), length), dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, -len(row.ids) :] = torch.tensor(row.ids)
        mask[index, -len(row.ids) :] = 1
    return ids, mask


def _decoding(entrant: LoadedEntrant) -> GenerationConfig:
    return GenerationConfig(
        do_sample=False,
        num_beams=1,
        max_new_tokens=entrant.spec.max_new_tokens,
        eos_token_id=list(entrant.eos_ids),
        pad_token_id=entrant.tokenizer.pad_token_id,
    )


def _read_response(
    entrant: LoadedEntrant,
    prompt: AskedPrompt,
    new_ids: list[int],
    *,
    batch_size: int,
    stopped_at: int,
) -> GeneratedResponse:
    at_token = next((n for n, token in enumerate(new_ids, 1) if token in entrant.eos_ids), 0)
    ends = [n_tokens for n_tokens in (at_token, stopped_at) if n_tokens]
    own_ids = new_ids[: min(ends)] if ends else new_ids
    return entrant.respond(
        prompt,
        own_ids,
        end="stop" if ends else "length",
        stop=entrant.as_vanilla().stop or (),
        diagnostics=entrant.circumstances(seed=prompt.seed, batch_size=batch_size),
    )
