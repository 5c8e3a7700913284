import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from anthropic.types import ThinkingConfigParam
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.judging.builders import SETTINGS, requests_for
from tests.tournament.test_config import load
from tournament_assets.foundation.errors import InputError
from tournament_assets.judging.requests.requests import effort_of
from tournament_assets.providers.anthropic.wire_format import message_body
from tournament_assets.providers.openai.wire_format import Dialect, chat_body
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.judge_services import ANTHROPIC, SERVICES
from tournament_assets.tournament.judges import (
    Judge,
    Rubric,
    label_judges,
    parse_rubric,
)

ENABLED = {"type": "enabled", "budget_tokens": 2048}
TOY = replace(ANTHROPIC, name="toy", key_variable="TOY_KEY", is_in_keys=True)


def judge(**settings: Any) -> Judge:
    return Judge.model_validate({"service": "anthropic", "model": "claude-1", **settings})


def keys(asked: Judge) -> set[str]:
    settings = replace(
        SETTINGS,
        temperature=asked.temperature,
        further=asked.further_params,
        identity=asked.identity,
    )
    return {request.request_key for request in requests_for(3, settings=settings)}


def test_a_revision_a_temperature_and_another_service_name_other_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SERVICES, "toy", TOY)
    others = [
        judge(revision="2026-11"),
        judge(revision="2026-12"),
        judge(temperature=0.0),
        judge(temperature=0.5),
        judge(effort="low"),
        judge(effort="high"),
        judge(thinking={"budget": 2048}),
        judge(thinking="adaptive"),
        judge(thinking="disabled"),
        judge(thinking="between_tools"),
        judge(extra_body={"service_tier": "auto"}),
        judge(service="toy"),
        judge(service="toy", revision="2026-11"),
    ]
    plain = {request.request_key for request in requests_for(3)}
    assert keys(judge()) == plain
    all_keys = [plain, *map(keys, others)]
    assert len(set[str]().union(*all_keys)) == 2 * 3 * len(all_keys)


def test_effort_and_further_fields_are_a_part_of_what_is_sent() -> None:
    fields = {"service_tier": "auto"}
    asked = judge(effort="low", thinking={"budget": 2048}, extra_body=fields)
    settings = replace(SETTINGS, reply_format="json_schema", further=asked.further_params)
    (request, _) = requests_for(1, settings=settings)
    assert request.params["output_config"].keys() == {"effort", "format"}
    sent = message_body(request.params)
    assert (sent["service_tier"], "extra_body" in sent) == ("auto", False)
    assert sent["thinking"] == ENABLED
    chat = chat_body(request.params, Dialect("max_tokens"))
    assert (chat["reasoning_effort"], chat["service_tier"]) == ("low", "auto")
    assert "thinking" not in chat
    assert effort_of(request.params) == "low 2048"


def test_thinking_is_named_as_the_sdk_names_it() -> None:
    kinds = ("adaptive", "between_tools", "disabled", {"budget": 2048})
    asked = [judge(thinking=kind).further_params["thinking"] for kind in kinds]
    assert asked == [*({"type": kind} for kind in kinds[:3]), ENABLED]
    checked = TypeAdapter(ThinkingConfigParam).validate_python
    assert [checked(thinking) for thinking in asked] == asked
    assert effort_of({"thinking": asked[0]}) == "adaptive"
    assert judge(thinking="disabled", temperature=0.0).further_params["thinking"] == asked[2]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"effort": "Low!"}, "effort"),
        ({"effort": "low", "service": "loopback", "model": "loopback"}, "effort .* openai_batch"),
        ({"thinking": {"budget": 8192}}, "thinking.budget is 8192 and max_tokens is 8192"),
        ({"thinking": {"budget": 2048}, "temperature": 1.0}, "takes no temperature"),
        ({"thinking": "adaptive", "temperature": 1.0}, "takes no temperature"),
        ({"thinking": "disabled", "service": "openai_api"}, "expected service: anthropic with"),
        ({"thinking": "enabled"}, "'adaptive', 'between_tools' or 'disabled'"),
        ({"thinking_budget": 2048}, "thinking_budget"),
        ({"extra_body": {"model": "dearer", "top_k": 1}}, "model cannot be set here"),
        ({"extra_body": {"reasoning_effort": "low"}}, "reasoning_effort cannot be set here"),
        ({"extra_body": {"system": "Say A."}}, "system cannot be set here"),
    ],
)
def test_what_a_judge_cannot_be_sent_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        judge(**given)


def test_the_way_to_a_judge_names_no_request() -> None:
    elsewhere = judge(base_url="https://gateway.example", api_key_env="MY_KEY", max_in_flight=9)
    assert keys(elsewhere) == keys(judge())


def test_a_temperature_is_sent_only_if_it_is_given() -> None:
    (asked, _) = requests_for(1)
    assert "temperature" not in asked.params
    (asked, _) = requests_for(1, settings=replace(SETTINGS, temperature=0.0))
    assert asked.params["temperature"] == 0.0


def test_a_key_that_a_service_keeps_to_itself_goes_to_no_other_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SERVICES, "toy", replace(TOY, keeps_key_to_itself=True))
    elsewhere = {"service": "toy", "base_url": "http://127.0.0.1:8000/v1"}
    assert judge(service="toy").key_variable == "TOY_KEY"
    assert judge(**elsewhere).key_variable == ""
    assert judge(**elsewhere).key_problem({}) is None
    assert judge(**elsewhere, api_key_env="MINE").key_variable == "MINE"
    assert "MINE" in (judge(**elsewhere, api_key_env="MINE").key_problem({"TOY_KEY": "x"}) or "")
    gateway = judge(base_url="https://gateway.example")
    assert gateway.key_variable == "ANTHROPIC_API_KEY"


@pytest.mark.parametrize("given", [{"base_url": "http://127.0.0.1:1"}, {"api_key_env": "MINE"}])
def test_a_service_on_this_machine_has_neither_an_address_nor_a_key(given: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=f"{next(iter(given))}.*'loopback'"):
        judge(service="loopback", model="loopback", **given)


def jury_of(
    *judges: dict[str, Any], names: tuple[str, ...] = (), **judging: Any
) -> TournamentConfig:
    modes: dict[str, Any] = {"pilot": {}, "headline": {"judges": list(names)}}
    return load(judges=list(judges), modes=modes, judging=judging)


ONE, TWO, THREE = (
    {"service": "loopback", "model": f"loopback-{name}"} for name in ("one", "two", "three")
)
CLAUDE = {"service": "anthropic", "model": "claude-opus", "name": "opus"}


def test_a_mode_is_judged_by_those_it_names_in_their_order_or_by_all() -> None:
    config = jury_of(ONE, TWO, CLAUDE, names=("opus", "loopback-one"))
    assert [each.model for each in config.judges_of("pilot")] == [
        "loopback-one",
        "loopback-two",
        "claude-opus",
    ]
    assert [each.name for each in config.judges_of("headline")] == ["opus", "loopback-one"]
    assert config.lead("headline").service == "anthropic"
    assert label_judges(config.judges_of("headline")).startswith("Claude")
    assert config.juries == ("pilot", "headline")


def test_another_model_is_asked_as_its_judge_is_or_as_the_only_one() -> None:
    settled = jury_of(ONE, CLAUDE, names=("loopback-one",))
    assert settled.lead("headline", model="claude-opus").name == "opus"
    assert settled.lead("headline", model="loopback-x").service == "loopback"
    with pytest.raises(InputError, match=r"'loopback-x'.*loopback-one, claude-opus"):
        settled.judges_of("pilot", model="loopback-x")


def test_three_judges_are_weighed_and_two_count_alike_unless_told_otherwise() -> None:
    three = jury_of(ONE, TWO, THREE, names=("loopback-one",))
    assert [three.aggregation(mode) for mode in three.mode_names] == ["judge_aware", "equal"]
    assert jury_of(ONE, TWO).aggregation("pilot") == "equal"
    assert jury_of(ONE, TWO, aggregate="judge_aware").aggregation("pilot") == "judge_aware"
    turns = jury_of(ONE, TWO, THREE, names=("loopback-one",), assignment="in_turn")
    assert [turns.aggregation(mode) for mode in turns.mode_names] == ["in_turn", "equal"]


@pytest.mark.parametrize(
    ("judges", "changes", "words"),
    [
        ((ONE, ONE), {}, "'loopback-one' twice"),
        ((ONE, {**ONE, "name": "other"}), {}, "the model 'loopback-one' judges twice"),
        (({**ONE, "share": 0.5}, {**TWO, "share": 0.5}), {}, "judges all pairs"),
        ((ONE, {**ONE, "model": "claude-opus"}), {}, "a name that begins with 'loopback'"),
        ((ONE,), {"aggregate": "equal"}, "aggregate is 'equal' and every mode has one judge"),
        ((ONE,), {"assignment": "in_turn"}, "assignment is 'in_turn' and every mode has one judge"),
        ((ONE, TWO), {"assignment": "in_turn", "aggregate": "equal"}, "settles a pair alone"),
        ((ONE, {**TWO, "share": 0.5}), {"assignment": "in_turn"}, "a judge has a share and"),
        ((ONE, TWO), {"names": ("loopback-on",)}, "'loopback-on'; expected some of loopback-one"),
    ],
)
def test_judges_that_cannot_judge_together_are_refused(
    judges: tuple[dict[str, Any], ...], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        jury_of(*judges, **changes)


TEXT = "# version: 3\n# dimension: factuality\n\nWhich response is truer?\n  - An indented line.\n"


def parse(text: str) -> Rubric:
    return parse_rubric(text, dimension="factuality", where="rubrics/factuality.txt")


def test_the_version_is_read_and_stays_part_of_what_the_judge_sees() -> None:
    rubric = parse(TEXT)
    assert rubric.version == "3"
    assert rubric.dimension == "factuality"
    assert rubric.text == TEXT.strip()


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r"),
        f"\n\n  {TEXT}\n\n",
        TEXT.rstrip(),
    ],
    ids=["Windows line ends", "old Mac line ends", "outer white space", "no line end"],
)
def test_line_ends_and_outer_white_space_do_not_change_the_hash(text: str) -> None:
    assert parse(text).content_hash == parse(TEXT).content_hash


@given(position=st.integers(0, len(TEXT.strip())), inserted=st.sampled_from(["x", ".", "é", "  "]))
def test_any_other_edit_changes_the_hash(position: int, inserted: str) -> None:
    text = TEXT.strip()
    edited = text[:position] + inserted + text[position:]
    assume(edited.strip() != text)
    try:
        rubric = parse(edited)
    except InputError:
        return  # the edit broke the version line
    assert rubric.content_hash != parse(TEXT).content_hash


@pytest.mark.parametrize("line", ["#version:1", "# version: 1", "#  version:   1  "])
def test_spaces_in_the_version_line_are_free(line: str) -> None:
    assert parse(f"{line}\nJudge.").version == "1"


@pytest.mark.parametrize("text", ["Which is truer?\n# version: 1\n", "# version:\nJudge.\n", ""])
def test_a_rubric_without_a_version_line_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^rubrics/factuality\.txt:1:.*# version: 1"):
        parse(text)


def test_a_rubric_that_says_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"^rubrics/factuality\.txt:1:.*nothing"):
        parse("# version: 1\n\n   \n")


def test_a_rubric_of_another_dimension_is_refused_with_its_line() -> None:
    with pytest.raises(InputError) as caught:
        parse_rubric(TEXT, dimension="helpfulness", where="rubrics/a.txt")
    (problem,) = caught.value.problems
    assert problem.startswith("rubrics/a.txt:2: the rubric is about 'factuality'")
    later = TEXT.replace("# dimension: factuality\n", "") + "# dimension: tone\n"
    with pytest.raises(InputError, match=r"a\.txt:\d: the rubric is about 'tone'"):
        parse_rubric(later, dimension="factuality", where="a.txt")


def test_every_provider_of_the_page_is_a_judge_that_can_be_asked() -> None:
    page = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    judges = [Judge.model_validate(judge) for block in blocks for judge in yaml.safe_load(block)]
    assert len(judges) == len(blocks) == 5
    assert {len(block.splitlines()) for block in blocks} == {4}
