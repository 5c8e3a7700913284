"""Families of models: a judge tends to favour text of its own family, so that is said.

Source: Panickssery, Bowman and Feng, "LLM evaluators recognize and favor their own generations",
https://arxiv.org/abs/2404.13076.
"""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from tournament_assets.tournament.entrants import AnyEntrant, LocalEntrant, RecordedEntrant
from tournament_assets.tournament.places import Location

LOOPBACK = "loopback"
"""The family of what the loopback server says, which is no language model."""

_FAMILIES = {
    "claude": ("claude",),
    "gpt": ("gpt", "chatgpt", "o1", "o3", "o4"),
    "gemini": ("gemini", "gemma"),
    "llama": ("llama", "vicuna", "alpaca"),
    "mistral": ("mistral", "mixtral", "ministral", "magistral", "codestral"),
    "qwen": ("qwen", "qwq"),
    "deepseek": ("deepseek",),
    "olmo": ("olmo", "tulu"),
    "phi": ("phi",),
    "command": ("command", "cohere", "aya"),
    "yi": ("yi",),
    "glm": ("glm", "chatglm"),
    "kimi": ("kimi", "moonshot"),
    "grok": ("grok",),
    "falcon": ("falcon",),
    "granite": ("granite",),
    "nova": ("nova",),
    "smollm": ("smollm",),
    LOOPBACK: (LOOPBACK,),
}
"""Words that begin a part of a model's name, by family; a distilled model has the name of both."""

_PARTS = re.compile(r"[a-z]+\d*")


def model_family(name: str) -> str | None:
    """Return the family that a model's name tells, or None where it tells none, or several.

    Args:
        name: A model as a provider or a folder calls it, such as `OLMo-2-1124-7B-Instruct`.
    """
    parts = _PARTS.findall(name.lower())
    found = {
        family
        for family, words in _FAMILIES.items()
        if any(_begins(part, word) for part in parts for word in words)
    }
    return found.pop() if len(found) == 1 else None


def _begins(part: str, word: str) -> bool:
    # Short words are part of too many others.
    return (
        part == word
        or (len(word) > 3 and part.startswith(word))
        or part.rstrip("0123456789") == word
    )


def entrant_family(entrant: AnyEntrant, *, named: Mapping[str, str]) -> str | None:
    """Return the family of an entrant's model, or None where nothing tells it.

    Args:
        entrant: What the config says of the entrant.
        named: Families that the config names, by entrant; they come before everything else.
    """
    if entrant.entrant_id in named:
        return named[entrant.entrant_id]
    for name in _names_of(entrant):
        family = model_family(name)
        if family is not None:
            return family
    return None


def judge_family(judge_model: str, *, named: Mapping[str, str]) -> str | None:
    """Return the family of a judge, or None where nothing tells it.

    Args:
        judge_model: The model that judged.
        named: Families that the config names, by model; they come before everything else.
    """
    return named.get(judge_model) or model_family(judge_model)


def _names_of(entrant: AnyEntrant) -> list[str]:
    if isinstance(entrant, RecordedEntrant):
        # A file of responses says nothing of the model but what people called it.
        return [entrant.entrant_id]
    if isinstance(entrant, LocalEntrant):
        return _names_of_place(entrant.weights)
    return [entrant.model]


def _names_of_place(weights: Location) -> list[str]:
    given = (weights.path, weights.builtin, weights.env, weights.source)
    return [PurePosixPath(name).name for name in given if name]
