import json

import pytest

from tests.loopback.builders import judge_params
from tests.loopback.faults.catalogue import plan_faults
from tests.loopback.faults.faulty_judges import BATCHES, judge, results
from tests.loopback.faults.servers import SpoiledCache
from tests.loopback.faults.spoiling import read_reply, spoil_message
from tests.loopback.test_messages import PREFIX, SHOWN, structured, text_of
from tournament_assets.loopback.messages import compose_message, score_lexically


def test_faults_spoil_a_structured_reply_in_its_own_form() -> None:
    whole = compose_message(structured(), message_id="m", cache_use="none")
    texts = {
        fault: text_of(spoil_message(whole, fault))
        for fault in ("text_empty", "no_verdict", "verdict_abstain", "verdict_quoted",
                      "verdict_markdown", "two_verdicts", "content_empty")
    }  # fmt: skip
    assert texts["text_empty"] == texts["content_empty"] == ""
    assert list(json.loads(texts["no_verdict"])) == ["reasoning"]
    assert json.loads(texts["verdict_abstain"])["verdict"] == "ABSTAIN"
    quoted = json.loads(texts["verdict_quoted"])
    assert (quoted["verdict"], '{"verdict": "B"}' in quoted["reasoning"]) == ("A", True)
    assert texts["verdict_markdown"] == f"```json\n{text_of(whole)}\n```"
    first, second = texts["two_verdicts"].splitlines()
    assert (json.loads(first)["verdict"], json.loads(second)["verdict"]) == ("A", "B")


def test_a_second_row_contradicts_a_structured_reply() -> None:
    with judge("results_duplicate_different") as (_, caller):
        body = {"requests": [{"custom_id": "r", "params": structured()}]}
        batch_id = caller.post(BATCHES, body).json()["id"]
        rows = [json.loads(line) for line in results(caller, batch_id).text.splitlines()]
    verdicts = [json.loads(text_of(row["result"]["message"]))["verdict"] for row in rows]
    assert verdicts == ["A", "B"]


@pytest.mark.parametrize("text", ["", "No verdict here.", '{"reasoning": "x"}', "a\nVERDICT: TIE"])
def test_a_reply_taken_apart_can_be_put_together_again(text: str) -> None:
    assert read_reply(text).write() == text


@pytest.mark.parametrize("others", [[], ["hit_rate:1"]])
def test_a_cache_can_expire_at_once_and_then_hits_nothing(others: list[str]) -> None:
    cache = SpoiledCache(plan_faults([*others, "cache_expiry:0"]))
    assert [cache.use(judge_params(system=PREFIX)) for _ in range(3)] == ["write"] * 3


def test_a_score_is_no_verdict_to_a_fault() -> None:
    text = score_lexically(SHOWN.format("x"), names=("reason", "score"))
    assert read_reply(text).verdict is None
