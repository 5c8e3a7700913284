"""Encodes prompts for a model with its own chat template."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from inspect import signature
from typing import Any

import jinja2
import torch
from torch import Tensor

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.fingerprints import prompt_seed
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.generation.models.entrant_weights import DATE_FUNCTION
from tournament_assets.tournament.entrant_settings import TEMPLATE_DATE
from tournament_assets.tournament.prompts import Prompt

NO_TEMPLATE = ""
"""In place of a chat template: the text is used as it is."""
SHORTEST = 64
"""Prompts are padded to this many tokens, or to this doubled as often as it takes.

Few lengths leave few batches unfilled. Of MT-bench's first turns in batches of 16, 71 % of the rows
were copies with multiples of 32; with doubled lengths 29 % are, for 1.3 times the padded tokens.
"""


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt's tokens, and the seed of its response.

    Attributes:
        ids: Token ids, at least one.
        seed: Seeds the response's random numbers.
    """

    ids: tuple[int, ...]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPrompt(EncodedPrompt):
    """One prompt, ready to be read: the tokens of the whole conversation up to the response.

    Attributes:
        is_padded: Whether it is padded; False if it is read alone.
        sample: The number of the wanted answer, from 1.
    """

    prompt_id: str
    text: str
    is_padded: bool = True
    sample: int = 1

    @property
    def padded_length(self) -> int:
        """Its length with padding, which depends on its own length alone.

        Every row of a batch has at least one token of padding: without any, transformers drops the
        attention mask, so the choice of kernel would depend on the other rows.
        """
        return padded_length(len(self.ids)) if self.is_padded else len(self.ids)


def padded_length(n_tokens: int) -> int:
    """Return how many tokens a prompt of `n_tokens` is padded to."""
    return max(SHORTEST, 1 << n_tokens.bit_length())


_DIRECTIVES = "aAbBcdDeFGgHIjmMpSTuUVwWxXyYzZ"
"""The letters of `strftime`'s directives."""


def _dated(template: str, today: date) -> str:
    """Return a chat template whose date is a given day's midnight, whatever the clock says.

    A macro takes the place of transformers' function, since a template's variables are plain data.
    """
    midnight = datetime.combine(today, time())
    values = {f"%{letter}": midnight.strftime(f"%{letter}") for letter in _DIRECTIVES}
    values |= {f"%-{each[1]}": value.lstrip("0") or "0" for each, value in values.items()}
    chain = "".join(f" | replace({each!r}, {value!r})" for each, value in values.items())
    return (
        f"{{% macro {DATE_FUNCTION}(format) %}}{{{{ format{chain} }}}}{{% endmacro %}}\n{template}"
    )


def encode_chat(
    tokenizer: Any,
    text: str,
    *,
    system_prompt: str | None,
    chat_template: str | None = None,
    arguments: JsonObject | None = None,
    today: date = TEMPLATE_DATE,
    name: str,
) -> tuple[int, ...]:
    """Return the token ids of a conversation that asks for a response.

    Args:
        tokenizer: The model's, with a chat template.
        system_prompt: Put before it, if given.
        chat_template: Replaces the tokenizer's own, if given; `NO_TEMPLATE` for the text alone.
        arguments: Further variables for the chat template.
        today: What a chat template is told that asks for the date.
        name: Begins every message, e.g. `entrant 'base'`.
    """
    if chat_template == NO_TEMPLATE:
        return _encode_alone(tokenizer, text)
    leading = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
    messages = [*leading, {"role": "user", "content": text}]
    if DATE_FUNCTION in str(chat_template or getattr(tokenizer, "chat_template", None)):
        chat_template = _dated(tokenizer.get_chat_template(chat_template), today)
    try:
        encoded = tokenizer.apply_chat_template(
            messages,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            chat_template=chat_template,
            **(arguments or {}),
        )
    except (jinja2.TemplateError, ValueError) as error:
        raise InputError(
            f"{name}: its chat template refuses "
            f"{' and '.join(message['role'] for message in messages)}: {error}; "
            "expected a template for these roles; leave out system_prompt or use another model"
        ) from error
    return tuple(encoded["input_ids"])


def encode_prompts(
    tokenizer: Any,
    prompts: Sequence[Prompt],
    *,
    system_prompt: str | None,
    max_new_tokens: int,
    context: int | None,
    chat_template: str | None = None,
    arguments: JsonObject | None = None,
    today: date = TEMPLATE_DATE,
    seed: int | None = None,
    is_padded: bool = True,
    too_long: dict[str, str] | None = None,
    name: str,
) -> list[AskedPrompt]:
    """Encode prompts for a model.

    Args, where they are not those of `encode_chat`:
        max_new_tokens: The most tokens of a response.
        context: The most tokens the model can read; None if it does not say.
        is_padded: Whether they are padded so that they can share batches.
        too_long: Takes the reason of each prompt that is left out, by id; None refuses all prompts.

    Raises:
        InputError: If a prompt and its response do not fit into the context and `too_long` is None.
    """
    refuse_unread_arguments(tokenizer, arguments or {}, chat_template=chat_template, name=name)
    problems = Problems()
    encoded = []
    for prompt in prompts:
        ids = encode_chat(
            tokenizer,
            prompt.text,
            system_prompt=system_prompt,
            chat_template=chat_template,
            arguments=arguments,
            today=today,
            name=name,
        )
        needed = len(ids) + max_new_tokens
        if context is not None and needed > context:
            reason = (
                f"{name}: prompt {prompt.prompt_id!r} takes {len(ids)} tokens, with "
                f"max_new_tokens {needed}; expected at most {context}, the model's context; "
                "shorten the prompt or lower max_new_tokens"
            )
            if too_long is None:
                problems.add(reason)
            else:
                too_long[prompt.name] = reason
            continue
        encoded.append(
            AskedPrompt(
                prompt_id=prompt.prompt_id,
                text=prompt.text,
                ids=ids,
                seed=prompt_seed(prompt.name, seed),
                is_padded=is_padded,
                sample=prompt.sample,
            )
        )
    problems.raise_if_any()
    return encoded


def _encode_alone(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Encode a text for a base model to continue, after the tokens that begin every text."""
    ids = list(tokenizer(text)["input_ids"])
    if ids and ids[-1] == tokenizer.eos_token_id:  # some tokenizers also end every text
        ids.pop()
    return tuple(ids)


def refuse_unread_arguments(
    tokenizer: Any,
    arguments: JsonObject,
    *,
    chat_template: str | None = None,
    name: str,
) -> None:
    """Refuse variables that a chat template never reads, since they would change no response.

    Arguments as for `encode_chat`.
    """
    if not arguments:
        return
    template = tokenizer.get_chat_template(chat_template)
    ours = {"messages", DATE_FUNCTION, *signature(tokenizer.apply_chat_template).parameters} - {
        "tools",
        "documents",
    }
    unread = sorted(
        argument
        for argument in arguments
        if argument in ours or not re.search(rf"\b{re.escape(argument)}\b", template)
    )
    if unread:
        raise InputError(
            f"{name}: template_arguments has {', '.join(map(repr, unread))}, which the model's "
            "chat template does not read or no config may say; expected variables of the template"
        )


def pad_right(rows: Sequence[Sequence[int]], length: int) -> Tensor:
    """Return token ids, shape (n_rows, length); what follows a row's own ids is never read."""
    ids = torch.zeros((len(rows), length), dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row)
    return ids
