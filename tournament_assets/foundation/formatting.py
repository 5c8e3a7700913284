"""Numbers and lists as people read them; what is absent never looks like a number."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from tournament_assets.foundation.estimates import Estimate

ABSENT = "\N{EN DASH}"
"""Printed where a number is absent."""


@dataclass(frozen=True, slots=True)
class Display:
    """How people see a column; it stands with the column's description, where a row declares it.

    Attributes:
        title: What stands above the column; its name if empty.
        text: Returns the text of a value, or None where it is absent.
    """

    title: str
    text: Callable[[Any], str | int | None] = lambda value: value


def hint_at(name: str, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `; did you mean …?` with the closest of some names; empty where none is close.

    Args:
        cutoff: How close it has to be, from 0 to 1, where 1 is the same.
    """
    listed = list(names)
    close = get_close_matches(name, listed, n=1, cutoff=cutoff)
    # A part of a name, such as `hf`, has few letters in common with all of it.
    part = (each for each in listed if len(name) > 1 and name.casefold() in each.casefold())
    return "".join(f"; did you mean {meant!r}?" for meant in (close or [*part])[:1])


def expect_one_of(name: object, names: Iterable[str], *, also: str = "") -> str:
    """Return `expected one of …`, with the closest of the names to one that is wrong."""
    listed = [*names]
    return f"expected {also}one of {', '.join(listed) or 'none'}{hint_at(str(name), listed)}"


def hint_at_number(written: str, *, is_share: bool) -> str:
    """Return how to write a share that is in per cent, or a number in quotes or with a unit."""
    match = re.fullmatch(r"(['$\u20ac\u00a3]*)(\d+\.?\d*) ?([%a-z$\u20ac\u00a3']*)", written)
    if match and is_share:
        return f"; {float(match[2]):g} % is {float(match[2]) / 100:g}"
    return f"; write the number alone: {match[2]}" if match and (match[1] or match[3]) else ""


def format_rating(value: float | None) -> str:
    """Return Elo points as a whole number."""
    return ABSENT if value is None else f"{value:.0f}"


def format_interval(low: float | None, high: float | None, *, absent: str) -> str:
    """Return both ends as whole Elo points, or the one that is known.

    Args:
        absent: What to write where neither end is known.
    """
    if low is None and high is None:
        return absent
    if low is None:
        return f"up to {high:.0f}"
    if high is None:
        return f"from {low:.0f}"
    dash = "\N{EN DASH}" if round(low) >= 0 else " to "  # -50–82 hides a sign
    return f"{low:.0f}{dash}{high:.0f}"


def format_share(value: float | None, *, decimals: int = 1) -> str:
    """Return a share as people read it everywhere: `33.7 %`."""
    return ABSENT if value is None else f"{value:.{decimals}%}".replace("%", " %")


def format_usd(dollars: float | None) -> str:
    """Return an amount, to a hundredth of a cent where that matters."""
    if dollars is None:
        return ABSENT
    return f"${dollars:,.4f}" if 0 < dollars < 0.1 else f"${dollars:,.2f}"


def format_number(value: float | None, *, decimals: int = 2) -> str:
    """Return a kappa, a weight or another small number."""
    return ABSENT if value is None else f"{value:.{decimals}f}"


def format_count(count: float | None, *, decimals: int = 0) -> str:
    """Return a count or an amount with its thousands set apart: `12,500`."""
    return ABSENT if count is None else f"{count:,.{decimals}f}"


def format_ends(
    low: float | None, high: float | None, spell: Callable[[float], str] = format_number
) -> str:
    """Return the ends of an interval: `0.12 to 0.67`; a dash where it has none."""
    return ABSENT if low is None or high is None else f"{spell(low)} to {spell(high)}"


def format_estimate(estimate: Estimate) -> str:
    """Return a number with its interval where it has one: `0.40 (0.12 to 0.67)`."""
    if estimate.low is None or estimate.high is None:
        return format_number(estimate.value)
    return f"{format_number(estimate.value)} ({format_ends(estimate.low, estimate.high)})"


def format_kappa(kappa: Estimate, confidence: float | None = None) -> str:
    """Return kappa in words, with its interval or why there is none.

    Args:
        confidence: Coverage of the interval; None where the reader knows it.
    """
    if kappa.value is None:
        return f"kappa is undefined: {kappa.note}"
    if kappa.low is None or kappa.high is None:
        return f"kappa {kappa.value:.2f} ({kappa.note})"
    of = "" if confidence is None else f"{format_confidence(confidence)} interval "
    return f"kappa {kappa.value:.2f} ({of}{format_ends(kappa.low, kappa.high)})"


def format_proportion(share: Estimate, noun: str, confidence: float) -> str:
    """Return a count, its share and the interval: `3 of 9 pairs (33.3 %; …)`."""
    if share.value is None or share.low is None or share.high is None:
        return f"0 of 0 {noun}"
    return f"{share.count} of {share.n} {noun} ({format_rate(share, confidence=confidence)})"


def format_rate(share: Estimate, confidence: float) -> str:
    """Return a share with its interval: `33.3 %; 95 % interval 12.1 % to 64.6 %`."""
    if share.low is None or share.high is None:
        return format_share(share.value)
    ends = format_ends(share.low, share.high, format_share)
    return f"{format_share(share.value)}; {format_confidence(confidence)} interval {ends}"


def format_count_of(part: int, whole: int) -> str:
    """Return a part of a whole, with its share where there is a whole."""
    return f"{part:,} of {whole:,}" + (f" ({format_share(part / whole)})" if whole else "")


def format_plural(count: int, noun: str) -> str:
    """Return a count with its noun, whose plural takes an s."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def format_confidence(confidence: float) -> str:
    """Return the coverage of an interval as per cent, without needless decimals."""
    return f"{100 * confidence:g} %"


def expected_share(points: float) -> float:
    """Return the share of the wins, ties as halves, that a difference in Elo points stands for."""
    return float(1 / (1 + 10 ** (-points / 400)))


def format_margin(points: float) -> str:
    """Return a margin that does not matter, in Elo points and as a share of the wins."""
    ends = f"{100 * expected_share(-points):.1f} to {format_share(expected_share(points))}"
    return f"{points:g} Elo points (an expected win share of {ends})"


def format_claim(claim: str | None, margin: float) -> str:
    """Return what is claimed of two, for a cell; that they are equivalent, with the margin.

    Args:
        claim: The word of a table, such as `a_better`; None where one has no rank.
        margin: The largest difference that does not matter, in Elo points.
    """
    if claim != "equivalent":
        return (claim or "").replace("_", " ")
    ends = f"{100 * expected_share(-margin):.1f}–{format_share(expected_share(margin))}"
    return f"{claim} within ±{margin:g} Elo ({ends})"


def format_gap(points: float) -> str:
    """Return a difference between two ratings in words."""
    if points < 1:
        return "less than 1 Elo point"
    rounded = round(points)
    return f"{rounded} Elo point" + ("" if rounded == 1 else "s")


def join_names(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: `a`, `a and b`, `a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def name_some(names: Sequence[str], instead: str = "") -> str:
    """Return up to four names; for more, `instead`, or the first name and a number."""
    if len(names) <= _MOST_NAMES:
        return join_names(names)
    return instead or f"{names[0]} and {len(names) - 1} others"


_MOST_NAMES = 4
"""Most names that a short sentence holds."""


def list_first(texts: Sequence[str], most: int = 3, *, separator: str = ", ") -> str:
    """Return the first texts, and how many more there are."""
    rest = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{separator.join(texts[:most])}{rest}"
