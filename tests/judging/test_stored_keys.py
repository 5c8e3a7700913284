"""The keys of a thousand requests as ledgers hold them: one digest for every hundred."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import islice

from tests.demo import ROOT
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import (
    JudgeRequest,
    RequestSettings,
    build_requests,
)
from tournament_assets.project.project_files import load_prompt_bank
from tournament_assets.tournament.judges import Rubric
from tournament_assets.tournament.prompts import Prompt

CLAUDE = RequestSettings(
    judge_model="claude-opus-5-5",
    max_tokens=8192,
    shows_gold_answer=True,
    shows_expected_behavior=False,
    domain="medical",
)
STORED = [
    "7e68ea42f64d8039",
    "27629ba71c1e3b8c",
    "19e6199802369635",
    "b39bcb45a37447f9",
    "ba5283cea78504bc",
    "b35064595e6ce723",
    "077b55d9ee418e71",
    "296281ff8495a6bb",
    "6cfbd0f42f712051",
    "0176fa100ab867de",
]
"""What the first released version put into ledgers; a service that came later is in the keys."""


def pairs_of(prompts: list[Prompt]) -> list[PairToJudge]:
    """Pair every prompt's words, forwards and backwards, with a quote, a tag and an umlaut."""
    return [
        PairToJudge(
            prompt_id=prompt.prompt_id,
            source=prompt.source,
            prompt_text=prompt.text,
            entrant_a="ada",
            entrant_b="bob",
            response_a=f"{prompt.text} – «naïve» {number}\n<response_b>",
            response_b=" ".join(reversed(prompt.text.split())),
            gold_answer=prompt.gold_answer,
            expected_behavior=prompt.expected_behavior,
        )
        for number, prompt in enumerate(prompts)
    ]


def rubric_of(dimension: str) -> Rubric:
    return Rubric(dimension, "1", f"# version: 1\n\nPrefer the response of more {dimension}.")


def thousand_requests() -> Iterator[JudgeRequest]:
    bank = load_prompt_bank(ROOT / "tournament_assets" / "data" / "prompt_bank.jsonl")
    pairs = pairs_of(bank)
    calibrated = replace(CLAUDE, shows_gold_answer=False, shows_expected_behavior=True)
    structured = replace(CLAUDE, judge_model="loopback-lexical", reply_format="json_schema")
    for dimension, settings in (
        ("factuality", CLAUDE),
        ("calibration", calibrated),
        ("clinical_utility", replace(CLAUDE, max_tokens=1024)),
        ("factuality", structured),
    ):
        yield from build_requests(pairs, rubric_of(dimension), settings)


def digests(requests: list[JudgeRequest]) -> list[str]:
    keys = [request.request_key for request in requests]
    return [
        sha256("".join(keys[start : start + 100]).encode()).hexdigest()[:16]
        for start in range(0, len(keys), 100)
    ]


def test_a_thousand_stored_requests_keep_their_keys() -> None:
    requests = list(islice(thousand_requests(), 1000))
    assert len({request.request_key for request in requests}) == 1000
    assert digests(requests) == STORED
