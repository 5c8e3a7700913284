"""People's labels in a small tournament: what they make out of date, and what the report says."""

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from tests.extras.people.test_label_records import sample
from tests.graph.test_edits import out_of_date
from tests.projects import (
    ENTRANTS,
    GOLD_SOURCE,
    N_WITH_GOLD,
    FinishedPilot,
    SmallProject,
    make_project,
    recorded_entrants,
    recorded_responses,
    write_json_lines,
)
from tournament_assets.audits.self_preference import measure_self_preference
from tournament_assets.cli import main
from tournament_assets.definitions import default_ledger_url
from tournament_assets.extras.people.assets import label_versions, label_worths
from tournament_assets.extras.people.label_records import (
    LabelRecords,
    LabelSample,
    LabelVote,
    SampledPair,
    sample_id_of,
)
from tournament_assets.foundation.fingerprints import fingerprint, fingerprint_text
from tournament_assets.graph.assets.observed_inputs import read_inputs
from tournament_assets.project.config_files import load_config
from tournament_assets.project.plan import load_plan
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.run_comparison.gate import GateSettings, hold_gate
from tournament_assets.run_comparison.run_reading import read_finished_runs
from tournament_assets.tournament.verdicts import Judgment, Outcome

IN_ROUNDS = {"adaptive": {"goal": "bank", "rounds": 2, "min_prompts": 2}}
AFTER_A_LABEL = ["people_ratings", "people_measures"]


@pytest.fixture
def project(finished_pilot: FinishedPilot, tmp_path: Path) -> SmallProject:
    """A project whose pilot has run."""
    return finished_pilot.copy(tmp_path / "project")


def rows_of(project: SmallProject, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(
        project.folder / "storage" / "small" / f"{name}.parquet"
    ).to_pylist()
    return rows


def sampled(row: dict[str, Any], position: int) -> SampledPair:
    texts = [row[name] for name in ("prompt_text", "response_a", "response_b")]
    prompt, a, b = map(fingerprint_text, texts)
    return SampledPair(
        pair_id=fingerprint([row["prompt_id"], row["entrant_a"], row["entrant_b"], a, b]),
        position=position,
        prompt_id=row["prompt_id"],
        entrant_a=row["entrant_a"],
        entrant_b=row["entrant_b"],
        prompt_digest=prompt,
        digest_a=a,
        digest_b=b,
        chance=1.0,
    )


def sample_of(pairs: tuple[SampledPair, ...], dimension: str | None) -> LabelSample:
    return replace(
        sample(*pairs),
        sample_id=sample_id_of("small", "pilot", dimension),
        tournament_id="small",
        dimension=dimension,
        frame_size=len(pairs),
    )


def label(
    project: SmallProject,
    votes: Iterable[tuple[str, dict[int, Any]]],
    *,
    dimension: str | None = "factuality",
    frame: str = "factuality",
    changed: bool = False,
    drawn: int | None = None,
) -> None:
    """Draw all pairs of the pilot, or the first ones, and keep votes by the place of the pair."""
    rows = rows_of(project, f"match_list/{frame}/pilot")
    pairs = tuple(sampled(row, position) for position, row in enumerate(rows))
    if drawn is not None:
        pairs = tuple(replace(pair, chance=drawn / len(rows)) for pair in pairs[:drawn])
    if changed:
        pairs = tuple(replace(pair, digest_a="0" * 64) for pair in pairs)
    drawn_sample = sample_of(pairs, dimension)
    with closing(LabelRecords(default_ledger_url(project.folder))) as ledger:
        ledger.keep_label_sample(drawn_sample)
        ledger.keep_votes(
            [
                LabelVote(
                    vote_id=f"{rater} {place} {dimension}",
                    sample_id=drawn_sample.sample_id,
                    pair_id=pairs[place].pair_id,
                    rater=rater,
                    vote=vote,
                    shown="ab",
                    given_at=datetime.now(UTC),
                )
                for rater, said in votes
                for place, vote in said.items()
            ]
        )


def test_a_project_without_a_ledger_has_no_labels_and_is_given_no_ledger(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    plan = load_plan(project.config_path, {})
    found = read_inputs(plan, "human_labels")
    assert {each.partition for each in found} == {
        f"{dimension}|{mode}"
        for dimension in ("factuality", "calibration")
        for mode in ("pilot", "headline")
    }
    assert len({each.version for each in found}) == 1
    assert not (project.folder / "ledger").exists()


def test_a_version_changes_with_what_counts_of_labels_and_with_nothing_else(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    plan = load_plan(project.config_path, {})
    texts = {"prompt_text": "?", "response_a": "yes", "response_b": "no"}
    rows = [
        {"prompt_id": f"recall-{n}", "entrant_a": "careful", "entrant_b": "sloppy", **texts}
        for n in range(4)
    ]
    drawn = sample_of(tuple(sampled(row, place) for place, row in enumerate(rows)), "factuality")

    def version() -> str:
        versions = label_versions(plan)
        (others,) = {each for scope, each in versions.items() if scope != ("factuality", "pilot")}
        assert others == nothing
        return versions["factuality", "pilot"]

    nothing = label_versions(plan)["factuality", "pilot"]
    with closing(LabelRecords(default_ledger_url(project.folder))) as ledger:

        def say(vote: Any, *, place: int = 0, rater: str = "ann", seconds: float = 1.0) -> str:
            given = LabelVote(
                vote_id=f"{next(numbers)}",
                sample_id=drawn.sample_id,
                pair_id=drawn.pairs[place].pair_id,
                rater=rater,
                vote=vote,
                shown="ab",
                given_at=datetime.now(UTC),
                seconds=seconds,
            )
            ledger.keep_votes([given])
            return version()

        numbers = count()
        ledger.keep_label_sample(drawn)
        assert version() == nothing  # a sample is no label
        first = say("a")
        assert say("b") not in (nothing, first)
        assert say("a", seconds=9.0) == first
        assert say("undo") == nothing
        assert say("a", rater="ben") not in (nothing, first)
        assert say("undo", rater="ben") == nothing
        assert say("a", place=1) not in (nothing, first)
        assert say("undo", place=1) == nothing
        assert say("a") == first
        rarer = tuple(replace(pair, chance=0.5) for pair in drawn.pairs)
        ledger.keep_label_sample(replace(drawn, draw=2, frame_size=8, pairs=rarer))
        assert version() not in (nothing, first)


def test_without_labels_there_is_no_row_and_no_word_of_people(
    finished_pilot: FinishedPilot,
) -> None:
    for asset in AFTER_A_LABEL:
        assert rows_of(finished_pilot.project, f"{asset}/factuality/pilot") == []
    (page,) = finished_pilot.project.folder.glob("runs/*/report.html")
    assert page.read_text().count('class="ladders"') == 1


def test_a_label_makes_exactly_what_reads_it_out_of_date(project: SmallProject) -> None:
    assert out_of_date(project) == {}
    label(project, [("ann", {0: "a"})])
    # The report follows once these two are made again.
    assert out_of_date(project) == {"factuality|pilot": AFTER_A_LABEL}


def test_labels_in_general_stand_for_dimensions_without_their_own(project: SmallProject) -> None:
    label(project, [("ann", {0: "a"})], dimension=None)
    assert out_of_date(project) == {
        "factuality|pilot": AFTER_A_LABEL,
        "calibration|pilot": AFTER_A_LABEL,
    }


def test_labels_of_texts_that_have_changed_are_counted_and_in_no_rating(
    project: SmallProject,
) -> None:
    label(project, [("ann", {0: "a", 1: "b"})], changed=True)
    for asset in AFTER_A_LABEL:
        project.tables(asset)
    rows = rows_of(project, "people_measures/factuality/pilot")
    counts = {row["subject"]: row["n"] for row in rows if row["measure"] == "count"}
    assert (counts["changed"], counts["pairs"]) == (2, 0)
    assert rows_of(project, "people_ratings/factuality/pilot") == []


def test_labels_rate_calibrate_and_stand_in_the_report(project: SmallProject) -> None:
    n_pairs = len(rows_of(project, "match_list/factuality/pilot"))
    before = project.stored_files()
    said = {place: "aabt"[place % 4] for place in range(n_pairs)}
    words = {"a": "a", "b": "b", "t": "both_bad"}
    label(
        project,
        [
            ("ann", {place: words[word] for place, word in said.items()}),
            ("<b>bob</b>", dict.fromkeys(range(0, n_pairs, 2), "a")),
        ],
    )
    project.run()
    after = project.stored_files()
    changed = {name.split("/")[1] for name in after if before.get(name) != after[name]}
    assert changed <= {*AFTER_A_LABEL, "report"}
    rows = rows_of(project, "people_measures/factuality/pilot")
    counts = {row["subject"]: row["n"] for row in rows if row["measure"] == "count"}
    assert counts["pairs"] == n_pairs
    assert counts["labels"] == n_pairs + len(range(0, n_pairs, 2))
    assert counts["both_bad"] == Counter(said.values())["t"]
    assert {(row["subject"], row["other"]) for row in rows if row["measure"] == "kappa"} == {
        ("ann", "judge"),
        ("<b>bob</b>", "judge"),
        ("<b>bob</b>", "ann"),
    }
    powered = rows_of(project, "people_ratings/factuality/pilot")
    assert {row["basis"] for row in powered} <= {"people", "judge", "both"}
    page = max(project.folder.glob("runs/*/report.html")).read_text()
    assert "2 people" in page
    assert "<b>bob</b>" not in page
    assert "&lt;b&gt;bob&lt;/b&gt;" in page
    assert page.count('class="ladders"') == 2


def test_people_are_put_beside_what_a_jury_says_together(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    models = ["loopback-hasty", "loopback-pilot", "loopback-headline"]
    project.seat(*({"model": name} for name in models))
    project.merge_config(judging={"aggregate": "equal"})
    asked = project.tables("judge_verdicts").metadata["judge_requests", ""]
    assert asked["requests_submitted_now"] > 0
    verdicts = rows_of(project, "judge_verdicts/factuality/pilot")
    # The judges do not say the same, so that the mean of their shares is none of theirs.
    assert {row["share"] for row in verdicts} - {0.0, 0.5, 1.0}
    words = {"a_wins": "a", "b_wins": "b"}
    label(project, [("ann", dict(enumerate(words.get(row["outcome"], "tie") for row in verdicts)))])
    calibrate(project)
    # Where the jury contradicts itself, its vote is half for each, and none for Ann's tie.
    split = sum(row["outcome"] == "inconsistent" for row in verdicts)
    assert split > 0
    assert right_of(project) == pytest.approx(1 - split / len(verdicts))


def in_turn_project(folder: Path, **mode: Any) -> SmallProject:
    """A project of three judges in turn, of whom the first is the entrant mixed."""
    project = make_project(folder, dimensions=("factuality",))
    models = ["loopback-pilot", "loopback-hasty", "loopback-coarse"]
    project.seat(*({"model": name} for name in models))
    entrants = recorded_entrants(ENTRANTS)
    playing = [
        each | ({"model": models[0]} if each["entrant_id"] == "mixed" else {}) for each in entrants
    ]
    written = [{**row, "entrant_id": models[0]} for row in recorded_responses("mixed")]
    write_json_lines(folder / "responses_mixed.jsonl", written)
    project.edit_config(entrants=playing)
    project.merge_config(modes={"pilot": mode}, judging={"assignment": "in_turn"})
    project.draw(**{GOLD_SOURCE: N_WITH_GOLD})
    return project


@pytest.mark.parametrize("mode", [{}, pytest.param(IN_ROUNDS, id="in rounds")])
def test_in_turn_each_pair_is_beside_its_own_judges_verdict(
    mode: dict[str, Any], tmp_path: Path
) -> None:
    project = in_turn_project(tmp_path / "project", **mode)
    project.run()
    rows = rows_of(project, "judge_verdicts/factuality/pilot")
    verdicts = [Judgment.of({**row, "share": None}) for row in rows]
    outcomes = (Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE)
    labels = [
        replace(pair, outcome=outcomes[place % 3], share=None)
        for place, pair in enumerate(verdicts)
    ]
    words = {Outcome.A_WINS: "a", Outcome.B_WINS: "b", Outcome.TIE: "tie"}
    label(project, [("ann", {place: words[each.outcome] for place, each in enumerate(labels)})])
    summary = project.run()

    right = [
        0.5 * (people.outcome is not Outcome.TIE)
        if pair.inconsistent
        else pair.share == people.share
        for pair, people in zip(verdicts, labels, strict=True)
    ]
    assert right_of(project) == pytest.approx(sum(right) / len(right))
    for basis, pairs in (("people", labels), ("judge", verdicts)):
        fits = fit_bradley_terry(code_judgments(pairs, entrants=[*ENTRANTS]))
        rated = {
            row["entrant_id"]: row["rating"]
            for row in rows_of(project, "people_ratings/factuality/pilot")
            if (row["basis"], row["method"]) == (basis, "prediction_powered")
        }
        assert rated == pytest.approx({each.entrant: each.value for each in fits})

    judged = dict(zip(map(id, verdicts), (row["settled_by"] for row in rows), strict=True))
    own = [pair for pair in verdicts if judged[id(pair)] == "loopback-pilot"]
    others = [pair for pair in verdicts if judged[id(pair)] != "loopback-pilot"]
    assert len({*judged.values()}) == 3
    for asset, name, says in (
        ("people_measures", "self_preference_by_labels", labels),
        ("measures", "self_preference", others),
    ):
        (row,) = (
            row for row in rows_of(project, f"{asset}/factuality/pilot") if row["measure"] == name
        )
        gain = measure_self_preference(own, says, "mixed", entrants=[*ENTRANTS], confidence=0.95)
        assert (row["subject"], row["n"]) == ("mixed", gain.n)
        assert row["value"] == pytest.approx(gain.value)

    (finished,) = read_finished_runs([summary.directory])
    light = "self_preference_by_labels of mixed"
    assert finished.at("trust", "factuality", light) == "red"
    (held,) = hold_gate(finished, GateSettings("careful", "sloppy")).dimensions
    assert held.test.difference.value == pytest.approx(rated["careful"] - rated["sloppy"])
    assert any(light in each for each in held.harmless)
    (held,) = hold_gate(finished, GateSettings("mixed", "sloppy")).dimensions
    assert any(light in each for each in held.doubts)


def calibrate(project: SmallProject) -> None:
    """Put people beside the judge anew, for which nobody is asked."""
    for asset in AFTER_A_LABEL:
        asked = project.tables(asset).metadata["judge_requests", ""]
        assert asked["requests_submitted_now"] == 0


def right_of(project: SmallProject) -> float:
    rows = rows_of(project, "people_measures/factuality/pilot")
    (value,) = (row["value"] for row in rows if row["measure"] == "right")
    return float(value)


def test_the_next_pairs_are_drawn_by_their_worth_with_known_chances(project: SmallProject) -> None:
    label(project, [("ann", {0: "a", 1: "tie", 2: "b"})], drawn=4)
    options = ["--config", str(project.config_path), "--mode", "pilot", "--rater", "ann"]
    options += ["--dimension", "factuality", "--out", str(project.folder / "label.html")]

    def run(*more: str) -> Result:
        return CliRunner().invoke(main, ["label", *options, *more], env=project.environment)

    both = run("--next", "3", "--sample", "9")
    assert both.exit_code == 2
    assert "--next" in both.output
    done = run("--next", "3")
    assert done.exit_code == 0, done.output
    assert "7 of " in done.output
    with closing(LabelRecords(default_ledger_url(project.folder))) as ledger:
        sample = ledger.label_sample("small", "pilot", "factuality")
    assert sample is not None
    assert (sample.draw, sample.method, len(sample.pairs)) == (2, "active", 7)
    rows = rows_of(project, "match_list/factuality/pilot")
    first = [(row["prompt_id"], row["entrant_a"], row["entrant_b"]) for row in rows[:4]]
    assert [(p.prompt_id, p.entrant_a, p.entrant_b) for p in sample.pairs[:4]] == first
    assert all(0 < pair.chance <= 1 for pair in sample.pairs)
    assert len({pair.pair_id for pair in sample.pairs}) == 7
    again = run("--next", "500")
    assert again.exit_code == 0, again.output
    with closing(LabelRecords(default_ledger_url(project.folder))) as ledger:
        everything = ledger.label_sample("small", "pilot", "factuality")
    assert everything is not None
    assert {pair.chance for pair in everything.pairs} == {1.0}
    assert run().exit_code == 0


def test_a_label_is_worth_what_its_pair_stands_for(project: SmallProject) -> None:
    config = load_config(project.config_path).config
    verdicts = pq.read_table(
        project.folder / "storage" / "small" / "judge_verdicts/factuality/pilot.parquet"
    ).to_pandas()

    def worths(weight: float) -> list[float]:
        weighed = verdicts.assign(weight=[weight, *[1.0] * (len(verdicts) - 1)])
        return [*label_worths(config, (), weighed).values()]

    assert worths(1.0) == worths(1.0)
    assert worths(5.0) != pytest.approx(worths(1.0), rel=1e-3)
