"""What adaptive judging saves, and how often it errs: `python -m benchmarks.adaptive`.

Draws tournaments of four entrants from known strengths (prompt effects of standard deviation 1, a
quarter of the pairs undecided), judges them by several stopping rules and prints, in Markdown: the
share of the judging that each rule needs, also with the tail, in how many tournaments any sign is
wrong, and how far ratings are off with and without the tail. Rules that the project does not use
are written down here alone: one plain bet (https://arxiv.org/abs/2010.09686, with the bets of its
predictable mixture) and the asymptotic confidence sequence (https://arxiv.org/abs/2103.06476). The
same options print the same. `--deciding 40 500` prints instead what it takes to decide a tournament
of 40 entrants on 500 prompts whose replies are known.
"""

import argparse
import math
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulated_tournaments import Design, draw_tournament
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, log_strengths
from tournament_assets.ratings.prompt_rounds import TAIL, hashed_order, tail_prompts
from tournament_assets.ratings.sequential import Goal, StoppingRule, aimed_capital, log_capital
from tournament_assets.storage.tables import pair_key
from tournament_assets.tournament.asset_rows import VerdictRow
from tournament_assets.tournament.verdicts import Outcome, Verdict

FIELDS = {
    "separated": (0.0, 0.5, 1.0, 2.0),
    "close": (0.0, 0.2, 0.35, 0.9),
    "equal": (0.0, 0.0, 0.0, 0.0),
}
"""Logits of the entrants."""
SIZES = (143, 500)
CONFIDENCE = 0.95
N_PAIRS = 6
_T_STAR = 71.5
"""Prompts at which the asymptotic sequence is made narrowest."""


def draw_shares(
    field: str, *, n_prompts: int, n_tournaments: int, seed: int
) -> NDArray[np.float64]:
    """Draw the first entrants' shares, shape (n_tournaments, n_pairs, n_prompts)."""
    generator = np.random.default_rng(seed)
    design = Design(n_prompts=n_prompts, sigma=1.0, strengths=FIELDS[field])
    drawn = [
        draw_tournament(design, generator).preference.reshape(n_prompts, N_PAIRS).T
        for _ in range(n_tournaments)
    ]
    return np.stack(drawn)


@dataclass(frozen=True, slots=True, eq=False)
class Stops:
    """How pairs ended, shape (n_tournaments, n_pairs) each.

    Attributes:
        judged: Prompts judged; all of them where the pair was not decided before.
        sign: 1 if the first is shown to be above, -1 if the second, 0 if neither.
    """

    judged: NDArray[np.int64]
    sign: NDArray[np.int64]


Evidence = Callable[[NDArray[np.float64], StoppingRule], NDArray[np.float64]]
"""Gives the evidence in both directions, shape (2, ..., t), of shares of shape (..., t), as ln of a
capital or as what is compared with one."""


def aimed(shares: NDArray[np.float64], rule: StoppingRule) -> NDArray[np.float64]:
    """Return what the project bets."""
    return np.stack([aimed_capital(shares, rule, side=side) for side in ("first", "second")])


def plain(shares: NDArray[np.float64], rule: StoppingRule) -> NDArray[np.float64]:
    """Return ln of the capital of one plain bet, the shares drawn without replacement."""
    place = np.arange(shares.shape[-1])
    alpha = (1 - rule.confidence) / rule.n_pairs
    before = np.cumsum(shares, axis=-1) - shares
    squares = np.cumsum((shares - (0.5 + np.cumsum(shares, axis=-1)) / (place + 2)) ** 2, axis=-1)
    variance = np.concatenate(
        [np.full((*shares.shape[:-1], 1), 0.25), ((0.25 + squares) / (place + 2))[..., :-1]], -1
    )
    bet = np.sqrt(2 * math.log(2 / alpha) / (variance * (place + 1) * np.log(place + 2)))
    expected = (rule.n_prompts / 2 - before) / (rule.n_prompts - place)
    found = []
    for side, odds in (("first", expected), ("second", 1 - expected)):
        # The constant keeps a zero, which is not betted on, out of the division.
        own = np.where(odds > 0, np.minimum(bet, 0.5 / np.maximum(odds, 1e-12)), 0.0)
        capital = log_capital(
            shares,
            own,
            side="first" if side == "first" else "second",
            n_prompts=rule.n_prompts,
        )
        found.append(capital)
    return np.stack(found)


def asymptotic(shares: NDArray[np.float64], rule: StoppingRule) -> NDArray[np.float64]:
    """Return inf where the asymptotic confidence sequence leaves out 1/2, and -inf elsewhere."""
    t = np.arange(1, shares.shape[-1] + 1)
    mean = np.cumsum(shares, axis=-1) / t
    variance = np.maximum(np.cumsum(shares**2, axis=-1) / t - mean**2, 0.0)
    alpha = (1 - rule.confidence) / rule.n_pairs
    rho = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1) / _T_STAR
    scale = t * variance * rho + 1
    reach = np.sqrt(scale / (t**2 * rho) * np.log(scale / alpha**2))
    tells = (np.abs(mean - 0.5) > reach) & (t >= 30)
    return np.stack(
        [np.where(tells & (sign * (mean - 0.5) > 0), np.inf, -np.inf) for sign in (1, -1)]
    )


def stop(
    evidence: NDArray[np.float64],
    rule: StoppingRule,
    ends: Sequence[int],
    *,
    steps: bool = True,
    between: bool = True,
) -> Stops:
    """Stop the pairs of many tournaments at once; what `decide` does with one.

    Args:
        evidence: Shape (2, n_tournaments, n_pairs, n_prompts).
        rule: When a pair is decided.
        ends: How many prompts open pairs have when they are looked at.
        steps: Whether the threshold falls as pairs are decided.
        between: Whether crossing the threshold between two looks counts.
    """
    best = evidence.max(axis=0)
    best[..., : rule.min_prompts - 1] = -np.inf
    sign = np.where(evidence[0] > evidence[1], 1, -1)
    thresholds = np.log([rule.threshold(r if steps else 0) for r in range(rule.n_pairs)])
    judged = np.full(best.shape[:2], rule.n_prompts)
    signs = np.zeros(best.shape[:2], dtype=np.int64)
    begin = 0
    for end in ends:
        begin = 0 if between else end - 1
        is_new = True
        while is_new:
            n_decided = np.minimum((signs != 0).sum(axis=1), rule.n_pairs - 1)
            crossed = best[..., begin:end] >= thresholds[n_decided][:, None, None]
            new = crossed.any(axis=-1) & (signs == 0)
            at = begin + crossed.argmax(axis=-1)
            signs = np.where(new, np.take_along_axis(sign, at[..., None], axis=-1)[..., 0], signs)
            judged = np.where(new, end, judged)
            is_new = bool(new.any()) and steps
    return Stops(judged, signs)


def wrong_tournaments(stops: Stops, truth: NDArray[np.float64]) -> float:
    """Return the share of tournaments in which any sign is not the true one.

    Args:
        stops: How the pairs ended.
        truth: What is true of the pairs, above 0 where the first is better, 0 where neither is;
            shape (n_pairs,) or (n_tournaments, n_pairs).
    """
    is_wrong = (stops.sign != 0) & (stops.sign != np.sign(truth))
    return float(is_wrong.any(axis=1).mean())


def truth_of(goal: Goal, field: str, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much the first is better: in this bank, or on all prompts there could be."""
    if goal == "bank":
        return np.asarray(shares.mean(axis=-1) - 0.5)
    strengths = np.array(FIELDS[field])
    above, below = np.triu_indices(len(strengths), 1)
    return np.asarray(strengths[above] - strengths[below])


def ratings(shares: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Bradley-Terry ratings with weights, in Elo points, shape (n_tournaments, 4)."""
    above, below = np.triu_indices(4, 1)
    wins = np.zeros((len(shares), 4, 4))
    wins[:, above, below] = (shares * weights).sum(axis=-1)
    wins[:, below, above] = ((1 - shares) * weights).sum(axis=-1)
    return ELO_PER_NAT * log_strengths(wins)


def tail_weights(judged: NDArray[np.int64], *, n_prompts: int, share: float) -> NDArray[np.float64]:
    """Return the prompts' weights by the project's own hashes, shape (..., n_pairs, n_prompts)."""
    rows = []
    order = hashed_order([f"prompt_{each}" for each in range(n_prompts)])
    for index, stopped in enumerate(judged):
        for pair, n_before in enumerate(stopped.tolist()):
            later = order[n_before:]
            tail = tail_prompts(later, pair=("pair", str(pair)), share=share, salt=str(index))
            weights = [1 / share if each in set(tail) else 0.0 for each in later]
            rows.append(np.array([1.0] * (n_prompts - len(later)) + weights))
    return np.stack(rows).reshape(*judged.shape, n_prompts)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a rule did on one field.

    Attributes:
        judged: The share of the judging before pairs stopped.
        billed: The same with the tail.
        wrong: The share of tournaments with a wrong sign.
    """

    judged: float
    billed: float
    wrong: float


RULES: dict[str, tuple[Goal, Evidence, int, dict[str, bool]]] = {
    "population, asymptotic sequence, every prompt": ("population", asymptotic, 0, {}),
    "population, aimed bets, 5 rounds": ("population", aimed, 5, {"steps": True}),
    "bank, one plain bet, every prompt": ("bank", plain, 0, {}),
    "bank, one plain bet, 5 rounds": ("bank", plain, -5, {"between": False}),
    "bank, one plain bet, 3 rounds": ("bank", plain, -3, {"between": False}),
    "bank, aimed bets, 3 rounds": ("bank", aimed, 3, {"steps": True}),
    "bank, aimed bets, 5 rounds, equal thresholds": ("bank", aimed, 5, {}),
    "bank, aimed bets, 5 rounds": ("bank", aimed, 5, {"steps": True}),
    "bank, aimed bets, 10 rounds": ("bank", aimed, 10, {"steps": True}),
}
"""Question, bets, rounds (0: every prompt; below 0: of equal length), and how it is stopped."""


def apply_rule(name: str, shares: NDArray[np.float64]) -> Stops:
    """Stop tournaments by one of the rules."""
    goal, evidence, rounds, options = RULES[name]
    n = shares.shape[-1]
    rule = StoppingRule(goal, CONFIDENCE, N_PAIRS, n, rounds=max(rounds, 1))
    ends: Sequence[int] = rule.ends
    if rounds == 0:
        ends = range(1, n + 1)
    elif rounds < 0:
        ends = [round(n * k / -rounds) for k in range(1, -rounds + 1)]
    return stop(
        evidence(shares, rule),
        rule,
        ends,
        steps=options.get("steps", False),
        between=options.get("between", True),
    )


def measure(name: str, field: str, shares: NDArray[np.float64]) -> Measured:
    """Apply a rule to tournaments of a field."""
    stops, n = apply_rule(name, shares), shares.shape[-1]
    weights = tail_weights(stops.judged, n_prompts=n, share=TAIL)
    return Measured(
        judged=float(stops.judged.mean()) / n,
        billed=float((weights > 0).mean()),
        wrong=wrong_tournaments(stops, truth_of(RULES[name][0], field, shares)),
    )


def bias(shares: NDArray[np.float64], *, share: float) -> tuple[NDArray[np.float64], float, float]:
    """Return the mean error of ratings against full judging, its root mean square, and the bill.

    Args:
        shares: Tournaments.
        share: The tail's share; 0 leaves the ratings as the stops leave them.

    Returns:
        Elo points of each entrant, shape (4,); Elo points; the share judged.
    """
    judged = apply_rule("bank, aimed bets, 5 rounds", shares).judged
    n = shares.shape[-1]
    if share:
        weights = tail_weights(judged, n_prompts=n, share=share)
    else:
        weights = (np.arange(n) < judged[..., None]).astype(np.float64)
    error = ratings(shares, weights) - ratings(shares, np.ones_like(shares))
    return error.mean(axis=0), float(np.sqrt((error**2).mean())), float((weights > 0).mean())


def _settled(pair: PairToJudge, outcome: Outcome) -> VerdictRow:
    return VerdictRow(
        prompt_id=pair.prompt_id,
        source=pair.source,
        dimension="factuality",
        entrant_a=pair.entrant_a,
        entrant_b=pair.entrant_b,
        verdict_ab=Verdict.TIE,
        verdict_ba=Verdict.TIE,
        outcome=outcome,
        share=outcome.share,
        request_key_ab="",
        request_key_ba="",
        attempt_ab=1,
        attempt_ba=1,
        settled_by="judge",
    )


def deciding_seconds(n_entrants: int, n_prompts: int, *, seed: int) -> tuple[float, float]:
    """Return what deciding a whole tournament takes, its replies known.

    Entrants' logits have a standard deviation of 1, and so have the effects of prompts.

    Returns:
        Seconds of processor time, and the share of the pairs that is judged, the tail included.
    """
    # The rules above are mathematics; the extra that judges by one may have been deleted.
    from tournament_assets.extras.stopping.adaptive_judging import decide
    from tournament_assets.extras.stopping.mode_keys import AdaptiveConfig

    generator = np.random.default_rng(seed)
    strength = generator.normal(size=n_entrants) + generator.normal(size=(n_prompts, n_entrants))
    names = [f"entrant_{index:03}" for index in range(n_entrants)]
    pairs, outcomes = [], {}
    for prompt, (i, j) in product(range(n_prompts), combinations(range(n_entrants), 2)):
        pair = PairToJudge(f"prompt_{prompt}", "s", "?", names[i], names[j], names[i], names[j])
        wins = generator.random() < 1 / (1 + np.exp(strength[prompt, j] - strength[prompt, i]))
        is_tie = generator.random() < 0.25
        decided = Outcome.A_WINS if wins else Outcome.B_WINS
        outcomes[pair_key(pair)] = [_settled(pair, Outcome.TIE if is_tie else decided)]
        pairs.append(pair)
    begun = time.process_time()
    course = decide(
        pairs,
        lambda own: {pair_key(each): outcomes[pair_key(each)] for each in own},
        dimension="factuality",
        adaptive=AdaptiveConfig(),
        is_free=lambda _: False,
    )
    return time.process_time() - begun, len(course.needed) / len(pairs)


def main() -> None:
    """Print the two tables, or what deciding takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tournaments", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deciding", type=int, nargs=2, metavar=("ENTRANTS", "PROMPTS"))
    options = parser.parse_args()
    if options.deciding:
        seconds, judged = deciding_seconds(*options.deciding, seed=options.seed)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{seconds:.1f} s of processor time, {most:.0f} MB at most, {judged:.0%} judged")
        return
    drawn = {
        (n, field): draw_shares(
            field, n_prompts=n, n_tournaments=options.tournaments, seed=options.seed
        )
        for n in SIZES
        for field in FIELDS
    }
    print("| judged; with the tail; wrong signs |", *(f"{n} {f} |" for n, f in drawn))
    print("|---|" + "---|" * len(drawn))
    for name in RULES:
        cells = [measure(name, field, shares) for (_, field), shares in drawn.items()]
        print(f"| {name} |", *(f"{m.judged:.1%}; {m.billed:.1%}; {m.wrong:.1%} |" for m in cells))
    print("\n| 143 separated | judged | mean error of each rating | root mean square |")
    print("|---|---|---|---|")
    for share in (0.0, 0.1, 0.2):
        mean, rms, bill = bias(drawn[143, "separated"], share=share)
        print(
            f"| tail {share:g} | {bill:.1%} | {', '.join(f'{m:+.1f}' for m in mean)} | {rms:.1f} |"
        )


if __name__ == "__main__":
    main()
