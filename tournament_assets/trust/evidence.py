"""The evidence about the judge in stored tables, for the trust panel, or why there is none.

Where there is none, an estimate without a value says why, and what would measure it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd

from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import format_share, join_names
from tournament_assets.ratings.intervals import two_sided_quantile
from tournament_assets.ratings.rating_methods import EFFECT
from tournament_assets.ratings.style_control import count_style, style_differences
from tournament_assets.storage.tables import AnyTable, PairKey, rows_of
from tournament_assets.tournament.asset_rows import (
    MatchRow,
    RatingRow,
)
from tournament_assets.tournament.completions import mark_in
from tournament_assets.tournament.verdicts import Outcome


def agreed(kappa: Estimate, share: Estimate) -> Estimate:
    """Return a kappa whose note says how many pairs agree."""
    if kappa.value is None:
        return kappa
    note = f"; {kappa.note}" if kappa.note else ""
    same = format_share(share.value)
    return replace(kappa, note=f"the same in {same} of {kappa.n} pairs{note}")


def longer_responses(matches: AnyTable) -> dict[PairKey, Outcome]:
    """Return which response of every pair has more words.

    Args:
        matches: The table `match_list`.

    Returns:
        By prompt and entrants: `a_wins` or `b_wins` for whose response is longer, or `tie`.
    """
    words: dict[str, int] = {}
    names: dict[str, str] = {}
    longer: dict[PairKey, Outcome] = {}
    for row in rows_of(MatchRow, matches):
        for text in (row.response_a, row.response_b):
            if text not in words:
                words[text] = count_style(text).words
        a, b = words[row.response_a], words[row.response_b]
        prompt_id, first, second = (
            names.setdefault(name, name) for name in (row.prompt_id, row.entrant_a, row.entrant_b)
        )
        longer[prompt_id, row.sample, first, second] = (
            Outcome.A_WINS if a > b else Outcome.B_WINS if a < b else Outcome.TIE
        )
    return longer


def marked_responses(matches: AnyTable) -> dict[str | None, Estimate]:
    """Return the share of every entrant's responses that hold marks of thoughts.

    Args:
        matches: The table `match_list` of a dimension.
    """
    texts: defaultdict[str, dict[tuple[str, int], str | None]] = defaultdict(dict)
    marks: dict[str, str | None] = {}
    for row in rows_of(MatchRow, matches):
        for name, text in ((row.entrant_a, row.response_a), (row.entrant_b, row.response_b)):
            if text not in marks:
                marks[text] = mark_in(text)
            texts[name][row.prompt_id, row.sample] = marks[text]
    shares: dict[str | None, Estimate] = {}
    for name, of_entrant in texts.items():
        named = [mark for mark in of_entrant.values() if mark is not None]
        n, share = len(of_entrant), len(named) / len(of_entrant)
        note = (
            f"{len(named)} of {n} responses hold {join_names(sorted({*named}))}" if named else None
        )
        shares[name] = Estimate(share, share, share, n, note)
    return shares


def length_of(frame: pd.DataFrame, *, n_judged: int) -> Estimate:
    """Return the effect of a typical difference in length.

    Args:
        frame: The table `ratings`.
        n_judged: Pairs it was fitted to.
    """
    rows = rows_of(RatingRow, frame)
    row = next((row for row in rows if (row.method, row.entrant_id) == (EFFECT, "words")), None)
    if row is None:
        return Estimate(note="no method rated at equal style")
    return Estimate(row.rating, row.low, row.high, 0 if row.rating is None else n_judged, row.note)


def length_gains(
    matches: AnyTable, effect: Estimate, *, confidence: float
) -> dict[str, dict[str, float]]:
    """Return the most that length gains every entrant against those with shorter responses.

    A typical difference in words, by `style_differences`, is their root mean square. Two entrants
    differ in length where the interval of their mean difference, by prompt, excludes 0; its farther
    end, in typical differences, times that of the effect is the most that it gains.

    Args:
        matches: The table `match_list` of a dimension.
        effect: Of a typical difference, in Elo points, with its interval.
        confidence: Coverage of the interval of the mean difference.

    Returns:
        Elo points by who has longer responses than whom, negative where the judge penalises length.
    """
    rows = list(rows_of(MatchRow, matches))
    words = {text: count_style(text) for row in rows for text in (row.response_a, row.response_b)}
    sides = ([words[getattr(row, f"response_{side}")] for row in rows] for side in "ab")
    differences = style_differences(*sides, names=("words",))[:, 0]
    typical = math.sqrt(np.mean(differences**2)) if rows else 0.0
    by_pair: defaultdict[tuple[str, str], defaultdict[str, list[float]]]
    by_pair = defaultdict(lambda: defaultdict(list))
    for row, difference in zip(rows, differences, strict=True):
        by_pair[row.entrant_a, row.entrant_b][row.prompt_id].append(difference)
    gains: defaultdict[str, dict[str, float]] = defaultdict(dict)
    farther = effect.high if (effect.value or 0.0) > 0 else effect.low
    for (a, b), prompts in by_pair.items():
        means = [float(np.mean(each)) for each in prompts.values()]
        if len(means) > 1 and farther is not None:
            quantile = two_sided_quantile(confidence, degrees_of_freedom=len(means) - 1)
            reach = quantile * float(np.std(means, ddof=1)) / math.sqrt(len(means))
            mean = float(np.mean(means))
            if abs(mean) > reach:
                longer, shorter = (a, b) if mean > 0 else (b, a)
                gains[longer][shorter] = farther * (abs(mean) + reach) / typical
    return dict(gains)
