import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.generation.loading import build_entrant
from tournament_assets.generation.models import entrant_weights
from tournament_assets.generation.models.chat_prompts import NO_TEMPLATE, encode_chat
from tournament_assets.generation.models.entrant_weights import EntrantFiles, check_weights
from tournament_assets.generation.responding import generate_responses
from tournament_assets.project.project_files import (
    Project,
    entrant_file_problems,
    find_entrant_files,
)
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


_DAY = "{{ strftime_now('%d %B %Y') }} {{ messages[0].content }}"
_DATED = {
    "the date": _DAY,
    "the date in a macro, in parts, in a format of its own": (
        "{% macro day(f) %}{{ strftime_now(f) }}{% endmacro %}"
        "{{ day('0%-d') }} {{ day('%B %Y') }} {{ messages[0].content }}"
    ),
    "the date unless it is given": (
        "{% if date_string is not defined %}{% set date_string = strftime_now('%d %B %Y') %}"
        "{% endif %}{{ date_string }} {{ messages[0].content }}"
    ),
}


def entrant_with(template: str, tmp_path: Path, **settings: object) -> tuple[str, str, list[str]]:
    """Return what a template writes, the entrant's fingerprint, and its files' problems."""
    (tmp_path / "t.jinja").write_text(template)
    spec = described(chat_template=Location(path="t.jinja"), **settings)
    project = Project(folder=tmp_path, environment={})
    files = find_entrant_files(spec, project)
    entrant = build_entrant(spec, files=files, device="cpu")
    ids = encode_chat(
        entrant.tokenizer,
        "Why?",
        system_prompt=None,
        chat_template=template,
        arguments=spec.template_arguments,
        today=spec.template_date,
        name="e",
    )
    problems = entrant_file_problems([spec], project)
    return entrant.tokenizer.decode(ids), spec.fingerprint(files.fingerprint), problems


@pytest.mark.parametrize("template", _DATED.values(), ids=_DATED)
def test_a_template_that_asks_for_the_date_is_told_a_fixed_one_that_counts(
    template: str, tmp_path: Path
) -> None:
    text, fingerprint, problems = entrant_with(template, tmp_path)
    assert text.split() == ["01", "January", "2025", "Why?"]
    again = entrant_with(template, tmp_path, template_date=date(2025, 1, 1))
    assert again == (text, fingerprint, problems)
    assert not problems
    later, other, problems = entrant_with(template, tmp_path, template_date=date(2026, 2, 3))
    assert later.split() == ["03", "February", "2026", "Why?"]
    assert other != fingerprint
    assert not problems


def test_the_default_date_is_in_the_fingerprint_where_a_template_asks_for_it_and_nowhere_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "t.jinja").write_text(_DAY)
    (folder / "chat_template.jinja").rename(folder / "own.jinja")
    shutil.copy(folder / "t.jinja", folder / "chat_template.jinja")
    places = {
        "in a file": EntrantFiles(TINY, chat_template=folder / "t.jinja"),
        "in the folder": EntrantFiles(folder),
        "not asked": EntrantFiles(TINY),
        "not asked by the template instead": EntrantFiles(
            folder, chat_template=folder / "own.jinja"
        ),
        "no template": EntrantFiles(folder, has_template=False),
    }
    before = {name: files.fingerprint for name, files in places.items()}
    monkeypatch.setattr(entrant_weights, "TEMPLATE_DATE", date(2030, 1, 1))
    changed = {name for name, files in places.items() if files.fingerprint != before[name]}
    assert changed == {"in a file", "in the folder"}


def test_a_date_that_no_template_asks_for_is_refused(tmp_path: Path) -> None:
    *_, problems = entrant_with("{{ messages }}", tmp_path, template_date=date(2026, 2, 3))
    assert len(problems) == 1
    assert "template_date" in problems[0]
