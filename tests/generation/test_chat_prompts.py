from dataclasses import replace
from pathlib import Path

import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.generation.loading import build_entrant
from tournament_assets.generation.models.chat_prompts import NO_TEMPLATE, encode_chat
from tournament_assets.generation.models.entrant_weights import EntrantFiles, check_weights
from tournament_assets.generation.responding import generate_responses
from tournament_assets.tournament.entrants import VanillaHfEntrant
from tournament_assets.tournament.places import Location
from tournament_assets.tournament.prompts import Prompt

from .builders import TINY, describe


def described(**settings: object) -> VanillaHfEntrant:
    plain = describe(max_new_tokens=8)
    return VanillaHfEntrant.model_validate({**dict(plain), **settings})


def test_a_folder_without_a_template_can_be_used_with_a_file_or_with_none(folder: Path) -> None:
    template = folder.parent / "own.jinja"
    (folder / "chat_template.jinja").rename(template)
    assert len(check_weights(folder, name="base")) == 1
    assert check_weights(folder, name="base", needs_template=False) == []
    with pytest.raises(InputError, match="chat template"):
        build_entrant(described(), files=EntrantFiles(folder), device="cpu")
    own = build_entrant(
        described(chat_template=Location(path="own.jinja")),
        files=EntrantFiles(folder, chat_template=template),
        device="cpu",
    )
    prompts = [Prompt("p", "Which vitamin is lacking in scurvy?", "test")]
    (again,) = generate_responses(own, prompts, batch_size=1)
    whole = build_entrant(described(), files=EntrantFiles(TINY), device="cpu")
    (expected,) = generate_responses(whole, prompts, batch_size=1)
    assert again == expected
    alone = build_entrant(described(chat_template="none"), files=EntrantFiles(folder), device="cpu")
    (raw,) = generate_responses(alone, prompts, batch_size=1)
    assert raw[0].prompt_tokens == len(alone.tokenizer(prompts[0].text)["input_ids"])
    assert expected[0].prompt_tokens != raw[0].prompt_tokens


def test_without_a_template_the_text_is_what_the_tokenizer_makes_of_it() -> None:
    class Closing:
        """Begins every text with 1 and closes it with 2."""

        eos_token_id = 2

        def __call__(self, text: str) -> dict[str, list[int]]:
            return {"input_ids": [1, *map(ord, text), 2]}

    ids = encode_chat(Closing(), "ab", system_prompt=None, chat_template=NO_TEMPLATE, name="e")
    assert ids == (1, 97, 98)


def test_the_template_is_in_the_fingerprint_and_where_it_lies_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.jinja").write_text("{{ messages }}")
    (tmp_path / "b.jinja").write_text("{{ messages }}")
    (tmp_path / "c.jinja").write_text("{{ messages[0] }}")
    files = [EntrantFiles(TINY, chat_template=tmp_path / f"{name}.jinja") for name in "abc"]
    plain = described()

    def fingerprint_of(number: int) -> str:
        entrant = described(chat_template=Location(path=f"{number}.jinja"))
        return entrant.fingerprint(files[number].fingerprint)

    assert fingerprint_of(0) == fingerprint_of(1)
    prints = {
        fingerprint_of(0),
        fingerprint_of(2),
        plain.fingerprint(EntrantFiles(TINY).fingerprint),
        described(chat_template="none").fingerprint(EntrantFiles(TINY).fingerprint),
    }
    assert len(prints) == 4


def test_an_empty_template_and_a_system_prompt_without_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jinja").write_text("\n")
    files = replace(EntrantFiles(TINY), chat_template=tmp_path / "empty.jinja")
    with pytest.raises(InputError, match=r"empty\.jinja"):
        build_entrant(
            described(chat_template=Location(path="empty.jinja")), files=files, device="cpu"
        )
    with pytest.raises(ValueError, match="system_prompt"):
        described(chat_template="none", system_prompt="Be brief.")
