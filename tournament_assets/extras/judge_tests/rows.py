"""The rows of the tables of tests."""

from dataclasses import dataclass
from typing import Annotated

from tournament_assets.tournament.verdicts import Outcome, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RetestRow:
    """A pair that tests the judge: a planted control, or a repetition."""

    reason: Annotated[str, "identical, corrupted or injection: a control; repeat: the same again"]
    name: Annotated[str, "the control; of a repeat the occasion, such as a rerun's id"]
    occasion: Annotated[int, "1 for the first time that it was asked as it is now"] = 1
    prompt_id: Annotated[str, "the prompt of both responses"]
    sample: Annotated[int, "which of the answers to the prompt, from 1"] = 1
    dimension: Annotated[str, "the quality being judged"]
    entrant_a: Annotated[str, "the pair's first entrant; a control's response of it is unchanged"]
    entrant_b: Annotated[str, "the other; in a control, what was copied, misplaced or added to"]
    expected: Annotated[
        Outcome | None, "the right outcome, or the tournament's; absent: the baseline is not judged"
    ] = None
    outcome: Annotated[Outcome, "how it was settled"]
    expected_ab: Annotated[Verdict | None, "the tournament's verdict on presentation ab"] = None
    expected_ba: Annotated[Verdict | None, "the tournament's verdict on presentation ba"] = None
    verdict_ab: Annotated[Verdict, "what the reply to presentation ab says"]
    verdict_ba: Annotated[Verdict, "what the reply to presentation ba says"]
    request_key_ab: Annotated[
        str | None, "SHA-256 of the tournament's request of presentation ab"
    ] = None
    request_key_ba: Annotated[
        str | None, "SHA-256 of the tournament's request of presentation ba"
    ] = None
    judge_model: Annotated[str, "the model that judged"]
    rubric_hash: Annotated[str, "SHA-256 of the rubric as the judge saw it"]
