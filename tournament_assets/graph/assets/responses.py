"""From selected prompts to every entrant's responses."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean

import pandas as pd

from tournament_assets.foundation.fingerprints import fingerprint, short
from tournament_assets.foundation.formatting import format_plural
from tournament_assets.foundation.json_lines import Json, JsonObject
from tournament_assets.graph.assets.observed_inputs import weights_version
from tournament_assets.graph.outputs import Check, Made, Metadata, known, markdown_table
from tournament_assets.graph.rows import Options, Step, Upstream
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.project_files import entrant_fingerprint
from tournament_assets.responses.entrant_responses import (
    Resources,
    Wanted,
    answer_prompts,
    answer_together,
)
from tournament_assets.responses.local_responses import CompletedResponses
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import RequestsRow, ResponseRow
from tournament_assets.tournament.completions import mark_in
from tournament_assets.tournament.entrants import AnyEntrant, get_entrant
from tournament_assets.tournament.prompts import (
    GeneratedResponse,
    Prompt,
    answer_key,
    count_heads,
    mean_p_correct,
    summarise_juries,
)

_REPLACEMENT_COLUMNS = ("prompt_id", "position", "draft", "replacement")


@dataclass(frozen=True)
class ResponseOptions:
    """Options of one run.

    Attributes:
        pay_again: Pay again for responses whose paid results the service no longer keeps.
        run_began_at: When this step's run began, for a budget per run.
    """

    pay_again: bool = False
    run_began_at: str | None = None

    @property
    def since(self) -> datetime:
        """When the run began; now if unknown."""
        began = self.run_began_at
        return datetime.fromisoformat(began) if began else datetime.now(UTC)


def entrant_responses(
    step: Step,
    selected_prompts: pd.DataFrame,
    prompt_bank: pd.DataFrame,
    options: Options[ResponseOptions],
    resources: Resources,
    upstream: Upstream,
) -> Made[list[ResponseRow]]:
    """One entrant's response to every selected prompt.

    Responses that the ledger holds for the same model, settings and prompt are reused; only the
    rest is generated, and every response is in the ledger as soon as its batch is done or a server
    has sent it. A provider's batches are paid for once, however often the step is killed; it waits
    for them until `waiting.deadline_seconds`.
    """
    entrant = get_entrant(step.plan.config.entrants, step.name)
    prompts = list(rows_of(Prompt, selected_prompts))
    wanted = Wanted(
        prompts=prompts,
        bank=list(rows_of(Prompt, prompt_bank)),
        plan=step.plan,
        resources=resources,
        may_pay_again=options.pay_again,
        since=options.since,
        log=step.log.info,
        upstream=upstream,
    )
    answers = answer_prompts(entrant, wanted)
    _tell(step, [*answers.warnings, *_reading_warnings(entrant, answers.responses)])
    entrant_hash = short(entrant_fingerprint(entrant, step.plan.project))
    rows = [_row(entrant, response) for response in answers.responses]
    return Made(
        rows,
        metadata={
            **_metadata(step.plan, entrant, answers),
            "entrant_hash": entrant_hash,
            "first_rows": markdown_table(rows, ("prompt_id", "response", "finish_reason")),
        },
        checks=_checks(prompts, answers, where=step.where),
    )


def _tell(step: Step, warnings: Sequence[str]) -> None:
    for warning in warnings:
        step.log.warning(f"{step.where}: {warning}")


def _reading_warnings(entrant: AnyEntrant, responses: Sequence[GeneratedResponse]) -> Iterator[str]:
    """Yield what a person should look at in how responses were read."""
    name, n = entrant.entrant_id, len(responses)
    if entrant.cuts_thoughts and not any("thought" in each.diagnostics for each in responses):
        yield f"strip: think cut nothing in {n} responses of {name}; expected a reasoning model"
    for word, count in _unknown_ends(responses).items():
        yield f"{count} of {n} responses of {name} ended with {word!r}, which nobody here knows"


def _unknown_ends(responses: Sequence[GeneratedResponse]) -> dict[str, int]:
    """Count the responses that ended for an unknown reason, by the service's word for it."""
    return dict(Counter(each.diagnostics["end"] for each in responses if "end" in each.diagnostics))


def entrant_requests(
    step: Step,
    selected_prompts: pd.DataFrame,
    options: Options[ResponseOptions],
    resources: Resources,
) -> Made[list[RequestsRow]]:
    """The requests to all entrants behind an API at once, and how many are answered.

    All requests are sent before the step waits, so a mode waits for its entrants once, and none of
    them holds a slot in the pool `gpu` meanwhile. Responses are kept in the ledger, where
    `entrant_responses` finds them; nothing that the ledger holds is asked again.
    """
    prompts = list(rows_of(Prompt, selected_prompts))
    wanted = Wanted(
        prompts=prompts,
        plan=step.plan,
        resources=resources,
        may_pay_again=options.pay_again,
        since=options.since,
        log=step.log.info,
    )
    answered = answer_together(wanted)
    rows = [
        RequestsRow(asked=name, requests=len(prompts), answered=len(answers.responses))
        for name, answers in answered.items()
    ]
    n_answers = sum(len(answers.responses) for answers in answered.values())
    return Made(
        rows,
        metadata={
            "generated_now": sum(answers.generated for answers in answered.values()),
            "replies_pending": len(prompts) * len(answered) - n_answers,
            **_speeds(answered),
            "first_rows": markdown_table(rows, ("asked", "requests", "answered")),
        },
        version=fingerprint("entrants are asked before their responses are read"),
    )


def _speeds(answered: Mapping[str, CompletedResponses]) -> JsonObject:
    """Return how long each entrant that was asked now took, and its tokens per second if known."""
    return {
        f"{figure}_{name}": answers.figures[figure]
        for name, answers in answered.items()
        for figure in ("generation_seconds", "tokens_per_second")
        if answers.generated and figure in answers.figures
    }


def _row(entrant: AnyEntrant, response: GeneratedResponse) -> ResponseRow:
    return ResponseRow(
        entrant_id=entrant.entrant_id,
        prompt_id=response.prompt_id,
        sample=response.sample,
        response=response.text,
        finish_reason=response.finish_reason,
        prompt_tokens=response.prompt_tokens,
        response_tokens=response.response_tokens,
        diagnostics=json.dumps(dict(response.diagnostics), sort_keys=True),
    )


def _metadata(plan: TournamentPlan, entrant: AnyEntrant, answers: CompletedResponses) -> Metadata:
    responses = answers.responses
    lengths = [len(response.text.split()) for response in responses]
    not_sent = {name for each in responses for name in each.diagnostics.get("not_sent", ())}
    return {
        "responses": len(responses),
        "mean_words": round(fmean(lengths), 1) if lengths else 0.0,
        "truncated_by_token_cap": sum(response.finish_reason == "length" for response in responses),
        # The fields that a server refused and that were left out.
        **known({"not_sent": sorted(not_sent) or None}),
        **_thought_metadata(entrant, responses),
        **known({"ends_nobody_knows": _unknown_ends(responses) or None}),
        **_jury_metadata(responses),
        "generated_now": answers.generated,
        "from_ledger": len(responses) - answers.generated,
        "source": answers.device,
        **answers.figures,
        "settings": {**entrant.display_settings, **answers.settings},
        **known({"weights_hash": weights_version(plan, entrant)}),
    }


def _thought_metadata(entrant: AnyEntrant, responses: Sequence[GeneratedResponse]) -> Metadata:
    """Describe how much thinking aloud was cut; empty if none was, and none was to be."""
    words = [
        response.diagnostics["thought_words"]
        for response in responses
        if "thought_words" in response.diagnostics
    ]
    if not words:
        return {"responses_with_thought_cut": 0} if entrant.cuts_thoughts else {}
    return {"responses_with_thought_cut": len(words), "mean_words_of_thought": fmean(words)}


def _jury_metadata(responses: Sequence[GeneratedResponse]) -> Metadata:
    """Describe what heads and juries did; empty if there were none."""
    metadata: dict[str, Json] = {}
    heads = count_heads(responses)
    if heads:
        metadata["responses_by_drawn_head"] = {str(head): count for head, count in heads.items()}
    p_correct = mean_p_correct(responses)
    if p_correct is not None:
        metadata["mean_p_correct"] = round(p_correct, 4)
    summary = summarise_juries(responses)
    if summary is None:
        return metadata
    replacements = [
        {"prompt_id": response.prompt_id, **replaced}
        for response in responses
        for replaced in response.jury.get("resampled", ())
    ]
    return {
        **metadata,
        "draft_acceptance_rate": round(summary.acceptance_rate, 4),
        "verified_tokens": summary.verified_tokens,
        "resampled_tokens": summary.resampled_tokens,
        "responses_with_resampling": summary.responses_resampled,
        "mean_verifier_entropy_nats": round(summary.mean_entropy, 4),
        "mean_suppression": round(summary.mean_suppression, 4),
        "mean_vote_margin": round(summary.mean_margin, 2),
        "mean_stability_radius": round(summary.mean_stability_radius, 2),
        "mean_validity_radius": round(summary.mean_validity_radius, 2),
        "first_replacements": markdown_table(replacements, _REPLACEMENT_COLUMNS),
    }


def _checks(prompts: Sequence[Prompt], answers: CompletedResponses, *, where: str) -> list[Check]:
    return [
        _coverage_check(prompts, answers, where=where),
        _empty_check(answers.responses, where=where),
        _marks_check(answers.responses, where=where),
    ]


def _coverage_check(prompts: Sequence[Prompt], answers: CompletedResponses, *, where: str) -> Check:
    answered = {answer_key(response) for response in answers.responses}
    reasons = answers.reasons
    missing = [prompt.name for prompt in prompts if answer_key(prompt) not in answered]
    first_reason = next((reasons[name] for name in missing if name in reasons), None)
    return Check(
        "response_coverage",
        passed=not missing,
        description=(
            f"{where}: all {len(prompts)} prompts are answered"
            if not missing
            else f"{where}: no response to {len(missing)} of {len(prompts)} prompts "
            f"({', '.join(missing[:5])}{', …' if len(missing) > 5 else ''}); "
            "left out for every entrant"
            + (f"; the first failure: {first_reason}" if first_reason else "")
        ),
        metadata={"missing": len(missing), "planned": len(prompts), "reasons": dict(reasons)},
    )


def _empty_check(responses: Sequence[GeneratedResponse], *, where: str) -> Check:
    empty = [response.prompt_id for response in responses if not response.text.strip()]
    return Check(
        "no_empty_response",
        passed=not empty,
        description=(
            f"{where}: every response says something"
            if not empty
            else f"{where}: {format_plural(len(empty), 'empty response')} "
            f"({', '.join(empty[:5])}{', …' if len(empty) > 5 else ''}), judged as they are"
        ),
        metadata={"empty": len(empty)},
    )


def _marks_check(responses: Sequence[GeneratedResponse], *, where: str) -> Check:
    marks = Counter(mark for each in responses if (mark := mark_in(each.text)) is not None)
    listed = ", ".join(f"{count} hold {mark}" for mark, count in sorted(marks.items()))
    return Check(
        "no_thought_in_response",
        passed=not marks,
        description=(
            f"{where}: no response holds a mark of a thought or of a chat template"
            if not marks
            else f"{where}: of {format_plural(len(responses), 'response')} {listed}; what was "
            "thought aloud may be judged as the answer; set strip: think, which generates nothing "
            "again"
        ),
        metadata={"marks": dict(sorted(marks.items()))},
    )
