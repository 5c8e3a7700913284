"""From the bank's file to the prompts of a mode, and to the pairs judged on each dimension."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import pandas as pd

from tournament_assets.graph.assets.ratings import response_texts
from tournament_assets.graph.outputs import Check, Made, Shown, markdown_table
from tournament_assets.graph.rows import Options, Step, ThisDimension, ThisMode
from tournament_assets.judging.requests.pairs import (
    PairToJudge,
    build_match_list,
    filter_pairs_for_dimension,
)
from tournament_assets.project.plan import select_prompts
from tournament_assets.project.project_files import load_bank
from tournament_assets.storage.tables import WrittenTable, rows_of, write_table
from tournament_assets.tournament.asset_rows import MatchRow
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.prompts import Prompt, first_samples

_SHOWN_COLUMNS = ("prompt_id", "source", "subject", "text", "gold_answer", "expected_behavior")


def prompt_bank(step: Step) -> Made[list[Prompt]]:
    """Every prompt of the tournament, read from the bank's JSONL file and validated.

    Rows with a gold answer are judged on every dimension; rows without one are left out of the
    dimensions that need it, and say how to behave instead: answer, hedge or abstain.
    """
    prompts = load_bank(step.plan.config, step.plan.project)
    return Made(
        prompts,
        metadata={
            "prompts": len(prompts),
            "prompts_by_source": _counts_by_source(prompts),
            "with_gold_answer": sum(prompt.gold_answer is not None for prompt in prompts),
            "first_rows": markdown_table(prompts, _SHOWN_COLUMNS),
        },
        checks=[_bank_integrity(prompts)],
    )


def _counts_by_source(prompts: Sequence[Prompt]) -> dict[str, int]:
    return dict(sorted(Counter(prompt.source for prompt in prompts).items()))


def _bank_integrity(prompts: Sequence[Prompt]) -> Check:
    """Look for an error that a valid bank can still have: one question under two ids."""
    ids_by_text: dict[str, list[str]] = {}
    for prompt in prompts:
        ids_by_text.setdefault(" ".join(prompt.text.lower().split()), []).append(prompt.prompt_id)
    repeated = [ids for ids in ids_by_text.values() if len(ids) > 1]
    return Check(
        "bank_integrity",
        passed=not repeated,
        description=(
            f"{len(prompts)} prompts, every id and every text once"
            if not repeated
            else f"the same question stands under several ids: {repeated[:5]}; remove the doubles"
        ),
        metadata={"prompts": len(prompts), "repeated_texts": len(repeated)},
    )


def selected_prompts(
    config: TournamentConfig, mode: ThisMode, prompt_bank: pd.DataFrame
) -> Made[list[Prompt]]:
    """The prompts of a mode, in bank order.

    Pilot: a seeded draw of a fixed number from each source. Headline: the whole bank. A custom
    mode: either of the two, or a share of each source. Where `generation.n_samples` is more than 1,
    a prompt has one row per answer.
    """
    samples = select_prompts(config, mode, list(rows_of(Prompt, prompt_bank)))
    prompts, n_samples = first_samples(samples), config.generation.n_samples
    return Made(
        samples,
        metadata={
            "prompts": len(prompts),
            **({"samples_of_each_prompt": n_samples} if n_samples > 1 else {}),
            "prompts_by_source": _counts_by_source(prompts),
            "first_rows": markdown_table(samples, _SHOWN_COLUMNS),
        },
    )


@dataclass(frozen=True)
class MatchListOptions:
    """Options of one run.

    Attributes:
        limit_pairs: Keep only the first pairs of the dimension; for trying things out.
    """

    limit_pairs: int | None = None


def match_list(
    config: TournamentConfig,
    dimension: ThisDimension,
    selected_prompts: pd.DataFrame,
    entrant_responses: Mapping[str, pd.DataFrame],
    options: Options[MatchListOptions],
) -> Made[WrittenTable[MatchRow]]:
    """The pairs to judge: every two entrants, on every prompt that all of them answered.

    Prompts without a gold answer are left out of dimensions that compare with one.
    """
    prompts = list(rows_of(Prompt, selected_prompts))
    matches = build_match_list(
        prompts, response_texts(entrant_responses), entrants=config.entrant_ids
    )
    eligible = filter_pairs_for_dimension(
        matches.pairs, needs_gold_answer=config.dimensions[dimension].needs_gold_answer
    )
    pairs = eligible[: options.limit_pairs]
    columns = ("prompt_id", "entrant_a", "entrant_b", "response_a", "response_b")
    shown = Shown(_pair_rows(pairs, dimension), columns)
    return Made(
        write_table(MatchRow, shown),
        metadata={
            "pairs": len(pairs),
            "pairs_left_out_by_limit": len(eligible) - len(pairs),
            "prompts": len({pair.prompt_id for pair in pairs}),
            "prompts_selected": len(first_samples(prompts)),
            "prompts_not_answered_by_all": len(matches.incomplete_prompts),
            "first_rows": shown.markdown,
        },
    )


def _pair_rows(pairs: Sequence[PairToJudge], dimension: str) -> Iterator[MatchRow]:
    for pair in pairs:
        # Not `asdict`, which would copy every text.
        yield MatchRow(dimension=dimension, **{name: getattr(pair, name) for name in _PAIR_FIELDS})


_PAIR_FIELDS = tuple(each.name for each in fields(PairToJudge))
