"""A judge: what names its requests, which key it gets, and where it is asked."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from tests.judging.builders import SETTINGS, requests_for
from tournament_assets.tournament.judge_services import ANTHROPIC, SERVICES
from tournament_assets.tournament.judges import Judge, ServiceAccess

TOY = replace(ANTHROPIC, name="toy", key_variable="TOY_KEY", is_in_keys=True)


def judge(**settings: Any) -> Judge:
    return ServiceAccess.model_validate({"service": "anthropic", **settings}).named("claude-1")


def keys(asked: Judge) -> set[str]:
    settings = replace(SETTINGS, temperature=asked.temperature, identity=asked.identity)
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
        judge(service="toy"),
        judge(service="toy", revision="2026-11"),
    ]
    plain = {request.request_key for request in requests_for(3)}
    assert keys(judge()) == plain
    all_keys = [plain, *map(keys, others)]
    assert len(set[str]().union(*all_keys)) == 2 * 3 * len(all_keys)


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
    problem = judge(**elsewhere, api_key_env="MINE").key_problem({"TOY_KEY": "x"})
    assert problem is not None
    assert "the environment variable MINE is not set" in problem
    gateway = judge(base_url="https://gateway.example")
    assert gateway.key_variable == "ANTHROPIC_API_KEY"


@pytest.mark.parametrize("given", [{"base_url": "http://127.0.0.1:1"}, {"api_key_env": "MINE"}])
def test_a_service_on_this_machine_has_neither_an_address_nor_a_key(given: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="which is started on this machine"):
        judge(service="loopback", **given)
