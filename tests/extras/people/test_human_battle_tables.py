import re
from typing import Any

import pytest

from tests.reports.builders import leader_row
from tests.tournament.test_config import load
from tournament_assets.extras.people.human_agreement import measure_human_agreement
from tournament_assets.extras.people.human_battle_tables import (
    agreement_rows,
    judge_sentence,
    people_section,
    people_sentences,
    say,
)
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.reports.report_tables import ReportSection
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.battles import Battle, BattleSource, BattleWinner

WINNERS: dict[str, BattleWinner] = {"a": "model_a", "b": "model_b", "t": "tie"}


def battles(source: BattleSource, words: str, *, first: int = 0) -> list[Battle]:
    return [
        Battle("ada", "bob", WINNERS[word], source, question_id=f"p{number}")
        for number, word in enumerate(words, start=first)
    ]


def sentence(judge: list[Battle], human: list[Battle]) -> str:
    found = measure_human_agreement(judge, human, Resampling(200))
    return say("agreement", found, "x", 0.95)


def test_the_sentence_names_every_number_with_its_interval() -> None:
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: a textbook kappa of 0.4.
    text = sentence(
        battles("llm-judge", "a" * 20 + "b" * 5 + "a" * 10 + "b" * 15),
        battles("human", "a" * 25 + "b" * 25),
    )
    # A share may count halves, so that only those of winners have a count.
    assert "50 comparisons in common" in text
    assert text.count("70.0 %") == 2
    assert text.count("35 of 50") == 1
    assert "95 % interval 55.7 %" in text
    assert "0.40 (95 % interval 0." in text


def test_nothing_shared_is_said_and_has_no_number() -> None:
    found = measure_human_agreement(battles("llm-judge", "ab"), battles("human", "a", first=7))
    text = say("agreement", found, "x", 0.95)
    assert re.findall(r"\d+", text) == ["2", "1"]
    rows = {row.measure: row for row in agreement_rows(found, min_kappa=0.5, dimension="x")}
    assert (rows["only_judge"].n, rows["only_people"].n) == (2, 1)
    for name in ("human_agreement", "human_agreement_decisive"):
        assert (rows[name].value, rows[name].n) == (None, 0)
        assert rows[name].note
    assert rows["human_agreement"].state == "not measured"


def test_one_label_alone_has_no_kappa_and_the_sentence_says_why() -> None:
    text = sentence(battles("llm-judge", "ttt"), battles("human", "ttt"))
    assert "undefined" in text
    assert "3 comparisons in common" in text
    assert "100.0 %" in text


def test_scales_that_differ_are_said_to_differ() -> None:
    assert " own" not in say("scale", {"judge": "ada", "both": "ada"})
    judge, both = say("scale", {"judge": None, "both": "bob"}).split(". ")
    assert " own" in judge
    assert "'bob'" in both


def test_who_is_left_out_is_listed_with_their_battles() -> None:
    text = say("left_out", {"rare": 3, "odd": 1}, 4, 30)
    assert re.findall(r"\w+ \(\d\)", text) == ["rare (3)", "odd (1)"]
    assert "; 4 battles" in text
    assert re.findall(r"\d+", say("left_out", {}, 0, 30)) == ["30"]


def section_of(**counts: int) -> ReportSection:
    """Return the section on people of labels that are counted and measured nowhere."""
    rows = [
        MeasureRow(dimension="x", measure="count", subject=name, unit="count", n=n)
        for name, n in counts.items()
    ]
    rows.append(MeasureRow(dimension="x", measure="rater", subject="ann", unit="count", n=1))
    section = people_section(
        [],
        rows,
        {"x": []},
        config=load(),
        mode="pilot",
        judge_models={"m"},
        links=lambda *_, **__: (),
    )
    assert section is not None
    return section


def test_the_section_on_people_counts_labels_and_what_is_left_out_of_them() -> None:
    names = ("pairs", "labels", "unjudged", "inconsistent", "both_bad", "changed")
    one, two = (section_of(**dict.fromkeys(names, n)) for n in (1, 2))
    assert [section.finding.split(" of ")[0] for section in (one, two)] == ["1 label", "2 labels"]
    assert one.sentences[1].startswith("On x, 1 pair labelled. 1 unjudged (left out). ")
    assert two.sentences[1] == (
        "On x, 2 pairs labelled. 2 unjudged (left out). 2 inconsistent (half for each). 2 labelled "
        "as both bad (ties). 2 labelled before a text changed (left out)."
    )
    assert "The judge is m." in one.sentences


@pytest.mark.parametrize(
    ("about", "n_raters", "whose"),
    [
        ("these_raters", 1, "this person"),
        ("these_raters", 2, "these 2 people"),
        ("people", 6, "people like these 6"),
    ],
)
def test_sentences_name_whose_opinion_is_meant(about: str, n_raters: int, whose: str) -> None:
    measures = [
        MeasureRow(dimension="x", measure="count", subject="labels", unit="count", n=60),
        *(
            MeasureRow(dimension="x", measure="rater", subject=f"r{n}", unit="count", n=10)
            for n in range(n_raters)
        ),
    ]
    leaders = [
        leader_row("ada", 1500.0, interval=(1450, 1550), dimension="x", above=["bob"]),
        leader_row("bob", 1300.0, interval=(1250, 1350), rank=2, dimension="x"),
    ]
    config = load(labels={"about": about})
    (sentence,) = people_sentences([], measures, {"x": leaders}, config)["x"]
    assert f"60 labels of {n_raters} pe" in sentence
    assert f"on x are too few to say whether {whose} would put ada above bob: " in sentence


def test_the_section_on_people_has_no_table_without_rows() -> None:
    section = section_of(labels=0, changed=2)
    assert (section.tables, section.folds, section.ladders) == ((), (), ())


def test_a_jury_is_named_with_how_it_decides() -> None:
    models = ("loopback-a", "loopback-b")

    def named(**judging: Any) -> str:
        judges = [{"service": "loopback", "model": each} for each in models]
        modes: dict[str, Any] = {"pilot": {}, "headline": {}}
        config = load(judges=judges, judging=judging, modes=modes)
        return judge_sentence(config, "pilot", models)

    assert named(aggregate="judge_aware").startswith("The judge is the jury of loopback-a and")
    assert named(aggregate="judge_aware") != named(aggregate="equal") == named()
    assert judge_sentence(load(), "pilot", models[:1]) == "The judge is loopback-a."
