"""`tournament judge audit`: the trust panel of judges, from their verdicts in files.

A row is a showing of a pair, or a pair that was settled from both orders. Repeated showings tell
whether the judge says the same again; of a pair, the first of each order counts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
import pandas as pd

from tournament_assets.audits.agreement import (
    LabelPair,
    label_of,
    measure_agreement,
    measure_by_prompt,
)
from tournament_assets.audits.judge_consistency import JudgedPair
from tournament_assets.audits.self_preference import measure_self_preference
from tournament_assets.battles.columnar import NO_VERDICT
from tournament_assets.battles.files import (
    FormatOptions,
    RowFormat,
    battle_of,
    battle_rows,
    find_prompt,
    reason_against,
)
from tournament_assets.battles.formats.arena import JUDGEARENA, PLAIN, UNREAD, ArenaFormat
from tournament_assets.battles.registry import detect_format
from tournament_assets.cli.options import json_option, page_option, show_report
from tournament_assets.extras.results.measures import TIES
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.judging.requests.verdict_parsing import reconcile_swap
from tournament_assets.ratings.judge_aware import fit_judge_aware
from tournament_assets.ratings.matches import code_samples
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import STYLE, rating_rows
from tournament_assets.ratings.style_control import count_style
from tournament_assets.reports.report_tables import Document
from tournament_assets.reports.trust_tables import red_sentences, trust_section
from tournament_assets.storage.foreign_tables import LeftOut, Row, TableReader
from tournament_assets.storage.row_files import sample_file
from tournament_assets.storage.tables import PairKey, make_table, pair_key
from tournament_assets.tournament.asset_rows import MeasureRow, RatingRow
from tournament_assets.tournament.battles import Battle, RatingSettings
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.prompts import AnswerKey
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict
from tournament_assets.trust.evidence import agreed, length_of
from tournament_assets.trust.measures import MEASURES, SELF_PREFERENCE, measure_judge
from tournament_assets.trust.panel import Found, JudgeEvidence, with_note

Said = dict[PairKey, list[Battle]]
"""A judge's verdicts by pair, whose models are in order."""
Texts = dict[tuple[str, AnswerKey], str]
_FIELDS = (
    *("prompt", "model_a", "model_b", "winner", "judge_model", "presentation", "dimension"),
    *("response_a", "response_b"),
)
_ADVICE = "name the columns of a table by --column, as in --column winner verdict"
_TEXTS = ("response_a", "response_b", "output_1", "output_2")
_UNORDERED = ("tournament", "judgearena", "alpaca-eval", "orq-arena")
"""Formats that show model_a first only where a row says so."""
_WORDS = {
    **dict.fromkeys(("A", "a", "left", "first", "1"), "model_a"),
    **dict.fromkeys(("B", "b", "right", "second", "2"), "model_b"),
    **dict.fromkeys(("C", "TIE", "Tie", "draw", "equal"), "tie"),
}
_REPLIES = {Outcome.A_WINS: Verdict.A, Outcome.B_WINS: Verdict.B, Outcome.TIE: Verdict.TIE}
_SETTINGS, _CHECKS = RatingSettings(), CheckThresholds()


@click.command("audit")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--column",
    "columns",
    type=(click.Choice(_FIELDS), str),
    multiple=True,
    help=f"A table's column that holds what is named first: {', '.join(_FIELDS)}.",
)
@click.option("--labels", type=click.Path(path_type=Path), help="What people say of the pairs.")
@page_option
@json_option
def judge_audit_command(
    files: tuple[Path, ...],
    columns: tuple[tuple[str, str], ...],
    labels: Path | None,
    page_path: Path | None,
    as_json: bool,
) -> None:
    """Say whether judges can be trusted, by verdicts in FILES: battles of any tool, or a table.

    It shows the lights of the trust panel for every judge and dimension. Name a table's columns by
    --column; its model_a was shown first, unless a column presentation says ba. A judge that has
    a model's name wrote that model's responses. The exit code is 1 if a light is red.

    \b
    tournament judge audit battles.jsonl --labels votes.csv --page judge.html
    tournament judge audit v.csv --column model_a left --column model_b right --column winner said
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    reader, texts, names = TableReader(), Texts(), dict(columns)
    said: dict[str, dict[str, Said]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for path in files:
        for judge, key, battle in read_verdicts(path, reader, names, texts):
            said[battle.dimension or "all pairs"][judge][key].append(battle)
    votes: Said = defaultdict(list)
    for _, key, battle in read_verdicts(labels, TableReader(), names, {}) if labels else ():
        votes[key].append(battle)
    lights = {
        (judge, dimension): audit_judge(judge, by_judge, texts, votes, dimension=dimension)
        for dimension, by_judge in said.items()
        for judge in by_judge
    }
    lost = [f"Left out, {reason}: {n}." for reason, n in sorted(reader.left_out.items())]
    if not lights:
        raise InputError(f"the files hold no verdict; expected some. {' '.join(lost)}")
    red = [f"{whose[0]}: {line}" for whose, rows in lights.items() for line in red_sentences(rows)]
    sections = (
        replace(section, title=f"Trust panel: {', '.join(whose)}")
        for whose, rows in lights.items()
        if (section := trust_section(rows, confidence=_SETTINGS.confidence))
    )
    show_report(
        Document("Judges", [*sections], [*red, *lost]),
        lambda: [
            {"judge": who, **asdict(row)} for (who, _), rows in lights.items() for row in rows
        ],
        as_json=as_json,
        page_path=page_path,
    )
    click.get_current_context().exit(1 if red else 0)


def read_verdicts(
    path: Path, reader: TableReader, columns: Mapping[str, str], texts: Texts
) -> Iterator[tuple[str, PairKey, Battle]]:
    """Yield the verdicts of a file: who judged, which pair, and how.

    Args:
        reader: Counts the rows that hold no verdict.
        columns: The columns of a table, by what they hold; none of a file of battles.
        texts: Takes the responses that the file holds.

    Raises:
        InputError: After the last, with everything that is wrong with the file.
    """
    known = PLAIN if columns else detect_format(path, advice=_ADVICE)
    if isinstance(known, RowFormat) and not columns:
        prompts, below, parse_row = known.prompts, known.below, known.parse
    else:
        prompts = known.accepted["question_id"] if isinstance(known, ArenaFormat) else ("prompt",)
        below, parse_row = (), lambda row, _: [row]

    judged: set[tuple[Any, ...]] = set()

    def order_of(row: Row) -> Literal["ab", "ba"] | None:
        if known is not JUDGEARENA or "pref_hard" not in row or row.get("question_id") is None:
            return None if known.name in _UNORDERED else "ab"
        # JudgeArena's runs show model_a first, and write what it said of the swapped pairs below.
        pair = tuple(map(row.get, ("question_id", "model_a", "model_b", "judge_model")))
        is_swapped = pair in judged
        judged.add(pair)
        return "ba" if is_swapped else "ab"

    def parse(where: str, row: Row) -> Iterator[tuple[str, PairKey, Battle] | LeftOut]:
        row = _in_our_words(row, columns) if columns else row
        order = order_of(row)
        reason = reason_against(row) or (None if row.get("winner", "-") else NO_VERDICT)
        if known is JUDGEARENA and row.get("winner") == "tie" and row.get("pref", 0) is None:
            reason = UNREAD
        prompt = find_prompt(row, prompts, below)
        decided_by = row.get("source") or known.source or "llm-judge"
        always = {"source": decided_by, "question_id": where if prompt is None else prompt}
        for values in [LeftOut(reason)] if reason else parse_row(row, FormatOptions(apart=True)):
            battle = values if isinstance(values, LeftOut) else battle_of({**values, **always})
            if isinstance(battle, LeftOut):
                yield battle
                continue
            battle = battle if battle.presentation else replace(battle, presentation=order)
            answers = (str(battle.question_id), battle.turn or battle.sample)
            for column, model in zip(_TEXTS, (battle.model_a, battle.model_b) * 2, strict=True):
                if isinstance(row.get(column), str):
                    texts[model, answers] = row[column]
            a, b = sorted((battle.model_a, battle.model_b))
            judge = battle.judge_model or ("people" if battle.source == "human" else "the judge")
            yield judge, (*answers, a, b), battle

    rows = battle_rows(path, sample_file(path).kind, needed=(*columns.values(),))
    yield from reader.values(rows, parse)


def _in_our_words(row: Row, columns: Mapping[str, str]) -> Row:
    cells = {name: row.get(column) for name, column in columns.items()}
    ours = {name: None if cell is None else str(cell) for name, cell in cells.items()}
    models = {ours.get("model_a"): "model_a", ours.get("model_b"): "model_b"}
    return {**ours, "winner": (_WORDS | models).get(ours.get("winner"), ours.get("winner"))}


def audit_judge(
    judge: str, by_judge: Mapping[str, Said], texts: Texts, votes: Said, *, dimension: str
) -> list[MeasureRow]:
    """Return the lights of a judge on a dimension.

    Args:
        by_judge: What every judge said on it.
        texts: The responses, as far as they are there.
        votes: What people said of the same pairs.
    """
    words = {answer: count_style(text).words for answer, text in texts.items()}
    settled = {name: _settle(said, words, dimension) for name, said in by_judge.items()}
    own = settled.pop(judge)
    others = {name: [pair.judgment for pair in pairs] for name, pairs in settled.items()}
    people = [
        _judgment(key, _outcome(vote, key[2]), dimension)
        for key, said in votes.items()
        for vote in said
    ]
    entrants = sorted(
        {name for said in (votes, *by_judge.values()) for key in said for name in key[2:]}
    )
    length = Estimate(note="the files do not hold the responses")
    if written := [pair.judgment for pair in own if pair.longer is not None]:
        matches = code_samples(written, entrants=entrants)
        evidence = Evidence(matches=matches, settings=_SETTINGS, responses=texts)
        rows = rating_rows(evidence, [STYLE], dimension=dimension)
        length = length_of(make_table(RatingRow, rows), n_judged=len(written))
    numbers: dict[str, Estimate | Found] = {
        "judge_agreement": {name: _agreement(own, each) for name, each in others.items()}
        or Estimate(note="there is no other judge"),
        "human_agreement": _agreement(own, people)
        if people
        else Estimate(note="nobody labelled", remedy="give people's votes by --labels"),
        "test_retest": _retest(by_judge[judge]),
        TIES.name: _ties(by_judge[judge]),
        SELF_PREFERENCE: Estimate(note="no model has the judge's name"),
    }
    if judge in entrants:
        numbers[SELF_PREFERENCE] = measure_self_preference(
            [pair.judgment for pair in own],
            [each for pairs in (*others.values(), people) for each in pairs],
            judge,
            entrants=entrants,
            confidence=_SETTINGS.confidence,
        )
    if not any(len({*pair.requests}) == 2 for pair in own):
        numbers["position_bias"] = _slot_share(by_judge[judge], entrants, dimension)
    lights = measure_judge(
        JudgeEvidence(
            pairs=own,
            entrants=entrants,
            resampling=_SETTINGS.resampling,
            length=length,
            verdicts=pd.DataFrame(),
            replies=pd.DataFrame(),
        ),
        _CHECKS,
        dimension=dimension,
        others=numbers,
    )
    of_runs = {name for name, measure in MEASURES.items() if measure.reads} - numbers.keys()
    of_runs |= {"marked_responses", "sampling_luck"}
    return [row for row in lights if row.measure not in of_runs]


def _settle(
    said: Said, words: Mapping[tuple[str, AnswerKey], int], dimension: str
) -> list[JudgedPair]:
    orders = [len(_by_first(verdicts).keys() - {None}) for verdicts in said.values()]
    # Only a pair that was settled from both orders is marked as inconsistent.
    is_settled = any(each.inconsistent for verdicts in said.values() for each in verdicts)
    in_both = is_settled or orders.count(2) > orders.count(1)
    pairs = []
    for key, verdicts in said.items():
        a, b = key[2:]
        shown, longer = _by_first(verdicts), None
        # The response that is shown first is A.
        ab, ba = (
            _REPLIES[_outcome(shown[x], x)] if x in shown else Verdict.PENDING for x in (a, b)
        )
        outcome = _outcome(shown.get(None, verdicts[0]), a)
        if in_both and None not in shown:
            outcome = reconcile_swap(ab, ba)
        if (a, key[:2]) in words and (b, key[:2]) in words:
            more = words[a, key[:2]] - words[b, key[:2]]
            longer = Outcome.A_WINS if more > 0 else Outcome.B_WINS if more else Outcome.TIE
        requests = (str(key), f"{key} swapped" if in_both else str(key))
        pairs.append(JudgedPair(_judgment(key, outcome, dimension), (ab, ba), requests, longer))
    return pairs


def _judgment(key: PairKey, outcome: Outcome, dimension: str) -> Judgment:
    names = dict(zip(("prompt_id", "sample", "entrant_a", "entrant_b"), key, strict=True))
    said = {"outcome": outcome, "share": outcome.share, "weight": 1.0, "dimension": dimension}
    return Judgment.of({**names, **said})


def _by_first(verdicts: Sequence[Battle]) -> dict[str | None, Battle]:
    """Return the earliest verdict by who was shown first; None where that is not known."""
    return {_first_of(each): each for each in reversed(verdicts)}


def _first_of(battle: Battle) -> str | None:
    return {"ab": battle.model_a, "ba": battle.model_b}.get(battle.presentation or "")


def _outcome(battle: Battle, model: str) -> Outcome:
    """Return how a verdict comes out if a model is a."""
    if battle.is_tie:
        return Outcome.INCONSISTENT if battle.inconsistent else Outcome.TIE
    winner = battle.model_a if battle.winner == "model_a" else battle.model_b
    return Outcome.A_WINS if winner == model else Outcome.B_WINS


def _agreement(own: Sequence[JudgedPair], others: Iterable[Judgment]) -> Estimate:
    labels = {pair_key(pair.judgment): label_of(pair.judgment.outcome) for pair in own}
    both = (
        LabelPair(each.prompt_id, labels.get(pair_key(each)), label_of(each.outcome))
        for each in others
    )
    agreement = measure_agreement(both, _SETTINGS.resampling)
    return agreed(agreement.kappa, agreement.share)


def _retest(said: Said) -> Estimate:
    units = (
        (key[0], _outcome(each, key[2]) is _outcome(earliest, key[2]))
        for key, verdicts in said.items()
        for each in verdicts
        if (earliest := _by_first(verdicts)[_first_of(each)]) is not each
    )
    share = measure_by_prompt(units, confidence=_SETTINGS.confidence)
    return share if share.n else Estimate(note="no showing is repeated")


def _ties(said: Said) -> Estimate:
    units = [
        (key[0], each.is_tie and not each.inconsistent)
        for key, verdicts in said.items()
        for each in verdicts
    ]
    share = measure_by_prompt(units, confidence=_SETTINGS.confidence)
    return with_note(share, f"{share.count} of {share.n} verdicts")


def _slot_share(said: Said, entrants: Sequence[str], dimension: str) -> Estimate:
    """Return what the first slot wins between equals, fitted with ratings, of pairs shown once."""
    shown = []
    for (prompt_id, sample, a, b), verdicts in said.items():
        for each in verdicts:
            if (first := _first_of(each)) is not None:
                key = (prompt_id, sample, first, b if first == a else a)
                shown.append(_judgment(key, _outcome(each, first), dimension))
    if not shown:
        return Estimate(note="the files do not say who was shown first")
    matches = code_samples(shown, entrants=entrants)
    alone = replace(matches, judges=("",), judge_index=np.zeros(len(shown), dtype=np.int64))
    fit = fit_judge_aware(alone, np.ones(len(shown)), confidence=_SETTINGS.confidence)
    (judge,) = fit.judges
    slot = judge.slot_logits or Estimate()
    value, low, high = (
        None if end is None else float(1 / (1 + np.exp(-end)))
        for end in (slot.value, slot.low, slot.high)
    )
    note = judge.note or "every pair was shown in one order: between equals, fitted with ratings"
    return Estimate(value, low, high, len(shown), note)
