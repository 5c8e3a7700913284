"""The trust panel of judges whose verdicts are in files."""

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tournament_assets.cli import main
from tournament_assets.extras.results.judge_audit import read_verdicts
from tournament_assets.storage.foreign_tables import TableReader

NAMES, N_PAIRS = ("ada", "bob", "cyd", "dan"), 500
COLUMNS = {
    "prompt": "question",
    "model_a": "first",
    "model_b": "second",
    "winner": "said",
    "judge_model": "who",
    "response_a": "one",
    "response_b": "two",
}
Rows = Sequence[Mapping[str, Any]]


def write(path: Path, rows: Rows) -> Path:
    if path.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    else:
        lines = [json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def audit(*words: Any, columns: Mapping[str, str] | None = None) -> dict[tuple[str, str], Any]:
    """Return every number of an audit, by judge and measure."""
    options = [
        word for name, column in (columns or {}).items() for word in ("--column", name, column)
    ]
    done = CliRunner().invoke(main, ["judge", "audit", *map(str, words), *options, "--json"])
    assert done.exit_code in (0, 1), done.output
    rows = json.loads(done.stdout)
    assert done.exit_code == any(row["state"] == "red" for row in rows)
    return {(row["judge"], row["measure"]): row for row in rows}


def draw(seed: int, slot: float, length: float, own: float) -> tuple[Rows, Rows]:
    """Draw what judge ada says of 500 pairs in both orders, and what people say.

    The effects are in log odds: of the first slot, of a response twice as long as the other one
    (about three quarters of it), and of the judge's own response.
    """
    rng = np.random.default_rng(seed)
    strength = dict(zip(NAMES, rng.normal(0, 0.8, 4), strict=True))
    rows: list[dict[str, Any]] = []
    votes: list[dict[str, Any]] = []
    for prompt in range(-(-N_PAIRS // 6)):
        words = {name: int(rng.integers(20, 200)) for name in NAMES}
        for a, b in combinations(NAMES, 2):
            base = strength[a] - strength[b] + rng.normal(0, 1.5)
            more = (words[a] - words[b]) / (words[a] + words[b] + 1)
            log_odds = base + length * more + own * (a == "ada")
            shown = {"question": f"q{prompt}"}
            for first, second, odds in ((a, b, log_odds), (b, a, -log_odds)):
                sides = {"first": first, "second": second, "who": "ada"}
                texts = {"one": "word " * words[first], "two": "word " * words[second]}
                wins = rng.random() < 1 / (1 + np.exp(-odds - slot))
                rows.append({**shown, **sides, **texts, "said": "A" if wins else "B"})
            wins = rng.random() < 1 / (1 + np.exp(-base))
            votes.append({**shown, "first": a, "second": b, "said": a if wins else b})
    return rows[: 2 * N_PAIRS], votes[:N_PAIRS]


# As the panel gives them: a slot that wins 68 %, 163 Elo, 199 Elo.
FAULTS = {
    "position_bias": {"slot": 1.2, "length": 0.0, "own": 0.0},
    "length_effect": {"slot": 0.0, "length": 3.5, "own": 0.0},
    "self_preference": {"slot": 0.0, "length": 0.0, "own": 1.6},
}


@pytest.mark.parametrize("fault", [*FAULTS, None])
@pytest.mark.parametrize(
    "n", [2, pytest.param(60, marks=[pytest.mark.e2e, pytest.mark.timeout(900)])]
)
def test_a_planted_fault_is_found_in_500_pairs_and_no_other(
    fault: str | None, n: int, tmp_path: Path
) -> None:
    effects = FAULTS.get(fault or "", dict.fromkeys(("slot", "length", "own"), 0.0))
    red = dict.fromkeys(FAULTS, 0)
    for seed in range(n):
        rows, votes = draw(seed, **effects)
        files = [
            write(tmp_path / name, each) for name, each in (("v.jsonl", rows), ("l.jsonl", votes))
        ]
        found = audit(files[0], "--labels", files[1], columns=COLUMNS)
        for name in red:
            red[name] += found["ada", name]["state"] == "red"
    for name, count in red.items():
        assert count >= 0.8 * n if name == fault else count <= 0.05 * n, (name, red)


PAIRS = [("a", "a")] * 74 + [("b", "b")] * 74 + [("a", "b")] * 67 + [("b", "a")] * 25
"""Who wins each of 240 pairs where a is shown first, and where b is: 92 pairs flip, 67 of them to
the first slot, so 282 of 480 verdicts are for the response shown first."""
SIDES = {"a": "model_a", "b": "model_b"}
BATTLES = [
    {
        "model_a": "ada",
        "model_b": "bob",
        "winner": SIDES[winner],
        "source": "llm-judge",
        "question_id": f"q{place}",
        "judge_model": "gpt",
        "presentation": order,
        "inconsistent": False,
    }
    for place, pair in enumerate(PAIRS)
    for order, winner in zip(("ab", "ba"), pair, strict=True)
]
GAMES = [
    {"question_id": place, "model_1": "ada", "model_2": "bob", "judge": ["gpt", "pair-v2"]}
    | {f"g{game}_winner": f"model_{'ab'.index(winner) + 1}" for game, winner in enumerate(pair, 1)}
    | {"turn": 1}
    for place, pair in enumerate(PAIRS)
]
OF_JUDGEARENA: dict[str, Rows] = {
    # A line for every showing: the models as shown, the preference as if they had not been swapped.
    "shown": [
        {"question_id": place, "model_A": shown[0], "model_B": shown[1], "judge": "gpt", "turn": 1}
        | {"preference": float(pair[swapped] == "b"), "swapped": bool(swapped)}
        for swapped, shown in enumerate((("ada", "bob"), ("bob", "ada")))
        for place, pair in enumerate(PAIRS)
    ],
    "games": [
        {"question_id": place, "model_A": "ada", "model_B": "bob", "judge": "gpt", "turn": 1}
        | {f"g{game}_winner": f"model_{winner.upper()}" for game, winner in enumerate(pair, 1)}
        | {"preference": 0.5 if len({*pair}) > 1 else float(pair[0] == "b")}
        for place, pair in enumerate(PAIRS)
    ],
    # All pairs, then all swapped, without a word of it; what was not read is a tie.
    "run": [
        {"question_id": place, "model_a": "ada", "model_b": "bob", "judge_model": "gpt"}
        | {"winner": f"model_{pair[half]}", "pref": float(pair[half] == "b"), "source": "llm-judge"}
        | {"pref_hard": float(pair[half] == "b")}
        for half in (0, 1)
        for place, pair in enumerate(PAIRS)
    ],
}
TABLE = [
    {"question": f"q{place}", "first": first, "second": second, "said": word, "who": "gpt"}
    for place, pair in enumerate(PAIRS)
    for first, second, winner in (("ada", "bob", pair[0]), ("bob", "ada", pair[1]))
    for word in ["left" if (winner == "a") == (first == "ada") else "right"]
]
OF_TABLE = {name: column for name, column in COLUMNS.items() if column in TABLE[0]}
CASES = {
    "own battles": ("v.jsonl", BATTLES, {}),
    "MT-bench": ("pair.jsonl", GAMES, {}),
    "CSV": ("v.csv", TABLE, OF_TABLE),
    "JSON lines": ("v.jsonl", TABLE, OF_TABLE),
    **{f"JudgeArena, {name}": ("v.csv", rows, {}) for name, rows in OF_JUDGEARENA.items()},
}


@pytest.mark.parametrize(("name", "rows", "columns"), CASES.values(), ids=CASES)
def test_the_same_verdicts_have_the_same_lights_in_every_format(
    name: str, rows: Rows, columns: dict[str, str], tmp_path: Path
) -> None:
    found = audit(write(tmp_path / name, rows), columns=columns)
    position, swaps = found["gpt", "position_bias"], found["gpt", "swap_consistency"]
    assert position["value"] == pytest.approx(282 / 480)
    assert (position["low"], position["high"]) == pytest.approx((0.543, 0.631), abs=0.001)
    assert (swaps["value"], swaps["state"]) == (pytest.approx(148 / 240), "red")
    assert found["gpt", "flip_direction"]["value"] == pytest.approx(67 / 92)


SETTLED = [
    {**row, "presentation": None, "winner": "tie", "inconsistent": True}
    if PAIRS[place // 2][0] != PAIRS[place // 2][1]
    else {**row, "presentation": None}
    for place, row in enumerate(BATTLES)
    if place % 2 == 0
]
ANNOTATIONS = [
    {"instruction": f"Why {n}?", "generator_1": "old", "generator_2": "new", "annotator": "gpt"}
    | {"output_1": "word " * 9, "output_2": "word " * (20 - n % 3), "preference": 2 - n % 2}
    for n in range(40)
]


def test_what_a_file_does_not_tell_is_not_measured_and_never_green(tmp_path: Path) -> None:
    settled = audit(write(tmp_path / "battles.jsonl", SETTLED))
    assert settled["gpt", "swap_consistency"]["value"] == pytest.approx(148 / 240)
    assert settled["gpt", "position_bias"]["state"] == "not measured"
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps([*ANNOTATIONS, {**ANNOTATIONS[0], "preference": None}]))
    alpaca = audit(path)
    assert alpaca["gpt", "longer_wins"]["value"] == pytest.approx(0.5)
    for name in ("position_bias", "swap_consistency", "test_retest", "human_agreement"):
        assert alpaca["gpt", name]["state"] == "not measured"
    assert all(row["n"] <= 40 for row in alpaca.values())


def test_ties_are_a_number_without_a_light(tmp_path: Path) -> None:
    rows = [{**row, "winner": "tie"} if n % 5 == 0 else row for n, row in enumerate(BATTLES)]
    ties = audit(write(tmp_path / "battles.jsonl", rows))["gpt", "verdicts_tied"]
    assert (ties["value"], ties["n"]) == (pytest.approx(0.2), 480)
    assert ties["low"] < 0.2 < ties["high"] < 0.25
    assert ties["state"] == "no threshold"
    # A pair whose orders disagree says nothing of a tie.
    settled = audit(write(tmp_path / "settled.jsonl", SETTLED))["gpt", "verdicts_tied"]
    assert (settled["value"], settled["n"]) == (0.0, 240)


def test_a_swapped_reply_is_swapped_where_the_first_could_not_be_read(tmp_path: Path) -> None:
    rows = [
        {**row, "source": "llm-judge"} for row in OF_JUDGEARENA["run"] if row["question_id"] < 2
    ]
    rows[0] |= {"winner": "tie", "pref": None}
    path = write(tmp_path / "battles.jsonl", rows)
    verdicts = [each for *_, each in read_verdicts(path, TableReader(), {}, {})]
    shown = [(each.question_id, each.presentation) for each in verdicts]
    assert shown == [("1", "ab"), ("0", "ba"), ("1", "ba")]


def test_judges_repeats_and_labels_are_compared_pair_by_pair(tmp_path: Path) -> None:
    # The second judge contradicts the first on every fourth verdict, and itself on every other one.
    other = [{**row, "judge_model": "opus"} for row in BATTLES]
    turned = {"model_a": "model_b", "model_b": "model_a"}
    other = [
        {**row, "winner": turned[str(row["winner"])]} if place % 8 < 2 else row
        for place, row in enumerate(other)
    ]
    again = [
        {**row, "winner": turned[str(row["winner"])]} if place % 2 else row
        for place, row in enumerate(other)
    ]
    path = write(tmp_path / "v.jsonl", [*BATTLES, *other, *again])
    people = [{**row, "source": "human", "judge_model": None} for row in BATTLES[::2]]
    labels = write(tmp_path / "labels.jsonl", people)
    found = audit(path, "--labels", labels)
    assert found["opus", "test_retest"]["value"] == pytest.approx(0.5)
    assert found["gpt", "judge_agreement"]["subject"] == "opus"
    # A pair that flips is half of a word for each: 111 of 148 agree in whole, and 92 by half.
    assert "65.4 %" in found["gpt", "judge_agreement"]["note"]
    assert found["gpt", "human_agreement"]["n"] == 240
    assert "80.8 %" in found["gpt", "human_agreement"]["note"]


def test_everything_wrong_with_a_file_is_said_at_once_with_its_place(tmp_path: Path) -> None:
    rows = [{**TABLE[0], "said": "maybe"}, TABLE[1], {**TABLE[2], "first": ""}]
    path = write(tmp_path / "v.csv", rows)
    for columns, problems in (
        (OF_TABLE, ("v.csv:2: winner is 'maybe'", "v.csv:4: ")),
        ({**OF_TABLE, "winner": "verdict"}, ("the header has no verdict",)),
    ):
        options = [word for each in columns.items() for word in ("--column", *each)]
        done = CliRunner().invoke(main, ["judge", "audit", str(path), *options])
        assert done.exit_code == 2
        assert all(problem in done.output for problem in problems), done.output


@pytest.mark.parametrize(("slot", "state"), [(0.0, "green"), (1.2, "red")])
def test_a_slot_is_found_where_each_pair_is_shown_in_one_order(
    slot: float, state: str, tmp_path: Path
) -> None:
    rows, _ = draw(3, slot=slot, length=0.0, own=0.0)
    order = np.random.default_rng(0).integers(0, 2, N_PAIRS)
    once = [rows[2 * place + int(side)] for place, side in enumerate(order)]
    found = audit(write(tmp_path / "v.jsonl", once), columns=COLUMNS)
    assert found["ada", "position_bias"]["state"] == state
    assert found["ada", "swap_consistency"]["state"] == "not measured"


ARENA = Path(__file__).parents[4] / "shared" / "data" / "arena_judged" / "battles.parquet"


@pytest.mark.skipif(not ARENA.exists(), reason="the arena's verdicts are not here")
def test_the_arenas_weakest_judge_prefers_the_first_slot() -> None:
    columns = {"prompt": "question_id", "model_a": "model_a", "model_b": "model_b"}
    found = audit(ARENA, columns={**columns, "winner": "winner_gpt35"})
    # 1.914 logits by another fit of all three judges.
    assert found["the judge", "position_bias"]["value"] == pytest.approx(0.871, abs=0.002)
