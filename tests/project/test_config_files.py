import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.extensions import installed_extras
from tournament_assets.project.config_files import ConfigFile, find_project, load_config
from tournament_assets.tournament.entrants import OpenAiApiEntrant
from tournament_assets.tournament.judges import Judge

GOOD = """\
tournament_id: tiny
prompt_bank: {path: bank.jsonl}
modes:
  pilot:
    strata: {recall: 2}
  headline: {}
dimensions:
  factuality:
    rubric: rubrics/factuality.txt
judges:
  - service: loopback
    model: loopback-large
    max_tokens: 1024
entrants:
  - entrant_id: ada
    loader: recorded
    responses: {path: ada.jsonl}
  - entrant_id: bob
    loader: vanilla_hf
    weights: &weights
      path: bob
    temperature: 0.7
  - entrant_id: cyd
    loader: vanilla_hf
    weights: *weights
ratings:
  k_sweep: [1.0, 16]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "configs").mkdir()
    return tmp_path / "configs" / "tiny.yaml"


def load(path: Path, text: str) -> ConfigFile:
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def problems_of(path: Path, text: str) -> list[str]:
    """Return the problems without the file's name, which each of them must begin with."""
    with pytest.raises(InputError) as caught:
        load(path, text)
    assert all(problem.startswith(f"{path}:") for problem in caught.value.problems)
    return [problem.removeprefix(f"{path}:") for problem in caught.value.problems]


def edited(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def test_a_good_file_is_read(path: Path) -> None:
    found = load(path, GOOD)
    assert found.path == path
    assert found.project == path.parent.parent.resolve()
    assert found.config.entrant_ids == ("ada", "bob", "cyd")
    assert found.config.ratings.k_sweep == (1.0, 16.0)


def test_a_config_outside_a_configs_folder_is_its_own_project(tmp_path: Path) -> None:
    assert find_project(tmp_path / "configs" / "a.yaml") == tmp_path.resolve()
    assert find_project(tmp_path / "a.yaml") == tmp_path.resolve()


def test_comments_and_layout_do_not_change_the_fingerprint(path: Path) -> None:
    plain = load(path, GOOD).config.fingerprint
    assert load(path, f"# A comment.\n\n{GOOD}").config.fingerprint == plain
    assert load(path, edited("temperature: 0.7", "temperature: 0.8")).config.fingerprint != plain


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "    max_tokens: 1024",
            "    max_token: 1024",
            f"13: unknown key 'judges.0.max_token'; expected one of "
            f"{', '.join(sorted(Judge.model_fields))}; did you mean 'max_tokens'?",
        ),
        (
            "    temperature: 0.7",
            "    heat: 0.7",
            "22: unknown key 'entrants.1.heat'; expected one of adapter, ",
        ),
        (
            "    responses: {path: ada.jsonl}",
            "    responses: {path: ada.jsonl, pth: ada.jsonl}",
            "17: unknown key 'entrants.0.responses.pth'; expected one of asset, builtin, env, "
            "path, source; did you mean 'path'?",
        ),
        (
            "    rubric: rubrics/factuality.txt",
            "    rubric: rubrics/factuality.txt\n    needs_gold: true",
            "10: unknown key 'dimensions.factuality.needs_gold'; expected one of "
            "needs_gold_answer, rubric, shows_expected_behavior, shows_gold_answer; "
            "did you mean 'needs_gold_answer'?",
        ),
        (
            "  max_tokens: 1024",
            "  max_tokens: many",
            "13: judges.0.max_tokens is 'many'; expected it to be a valid integer",
        ),
        (
            "  max_tokens: 1024",
            "  max_tokens: 10",
            "13: judges.0.max_tokens is 10; expected it to be greater than or equal to 64",
        ),
        (
            "  strata: {recall: 2}",
            "  strata: {recall: -2}",
            "5: modes.pilot.strata.recall is -2; expected it to be greater than or equal to 0",
        ),
        (
            "  k_sweep: [1.0, 16]",
            "  k_sweep:\n    - 1.0\n    - zero",
            "29: ratings.k_sweep.1 is 'zero'; expected it to be a valid number",
        ),
        (
            "service: loopback",
            "service: oracle",
            "11: judges.0.service is 'oracle'; expected it to be 'loopback' or 'anthropic' or "
            "'openai_batch' or 'openai_api'",
        ),
        (
            "    loader: recorded",
            "    loader: magic",
            "15: entrants.0 has loader 'magic'; expected one of "
            "vanilla_hf, custom_poe, recorded, openai_api, anthropic_api",
        ),
        (
            "    loader: recorded\n",
            "",
            "15: entrants.0 has no loader; expected one of "
            "vanilla_hf, custom_poe, recorded, openai_api, anthropic_api",
        ),
        (
            "  - service: loopback\n    model: loopback-large\n",
            "  - model: loopback-large\n",
            "11: judges.0.service is missing; add it",
        ),
        (
            "prompt_bank: {path: bank.jsonl}\n",
            "",
            "1: prompt_bank is missing; add it",
        ),
        (
            "    responses: {path: ada.jsonl}",
            "    responses: {path: ada.jsonl, env: ADA}",
            "17: entrants.0.responses: path and env is given; "
            "expected exactly one of path, env, builtin and asset",
        ),
        (
            "    rubric: rubrics/factuality.txt",
            "    rubric: rubrics/factuality.txt\n    needs_gold_answer: true",
            "8: dimensions.factuality: needs_gold_answer is true and shows_gold_answer is not; "
            "expected a dimension that needs the gold answer to show it to the judge",
        ),
        (
            "  - entrant_id: cyd",
            "  - entrant_id: ada",
            "23: entrants.2.entrant_id: entrant 'ada' is listed twice; "
            "expected every entrant_id once; rename or remove one",
        ),
    ],
    ids=lambda value: value[:40].strip(),
)
def test_a_problem_names_its_line_what_was_found_and_what_was_expected(
    path: Path, old: str, new: str, problem: str
) -> None:
    (found,) = problems_of(path, edited(old, new))
    assert found.startswith(problem)


def test_one_entrant_is_too_few(path: Path) -> None:
    start, end = GOOD.index("  - entrant_id: bob"), GOOD.index("ratings:")
    (problem,) = problems_of(path, GOOD[:start] + GOOD[end:])
    assert re.match(r"14: .*entrants is 1;", problem)


def test_all_problems_are_told_at_once_in_the_order_of_the_lines(path: Path) -> None:
    text = (
        GOOD.replace("headline: {}", "headline: {prewrm: true}")
        .replace("max_tokens: 1024", "max_tokens: many")
        .replace("loader: recorded", "loader: magic")
        .replace("temperature: 0.7", "temperature: -1")
        .replace("entrant_id: cyd", "entrant_id: bob")
    )
    assert [problem.split(":")[0] for problem in problems_of(path, text)] == [
        "6",
        "13",
        "15",
        "22",
        "23",
    ]


def test_too_few_entrants_are_told_together_with_what_is_wrong_with_the_one(path: Path) -> None:
    start, end = GOOD.index("  - entrant_id: bob"), GOOD.index("ratings:")
    text = (GOOD[:start] + GOOD[end:]).replace("loader: recorded", "loader: magic")
    first, second = problems_of(path, text)
    assert re.match(r"14: .*entrants is 1;", first)
    assert re.match(r"15: entrants\.0 .*'magic'", second)


def test_a_key_that_stands_twice_names_both_lines(path: Path) -> None:
    text = edited("  - service: loopback\n", "  - service: loopback\n    service: anthropic\n")
    problems = problems_of(path, f"{text}judges: []\n")
    assert [re.findall(r"\d+|'\w+'", problem) for problem in problems] == [
        ["12", "'service'", "11"],
        ["29", "'judges'", "10"],
    ]


def test_a_file_that_is_not_yaml_names_the_line(path: Path) -> None:
    (problem,) = problems_of(path, "tournament_id: tiny\njudge: [unclosed\n")
    assert re.match(r"3: .*YAML$", problem, re.DOTALL)


@pytest.mark.parametrize(
    ("text", "kind"), [("", "empty"), ("- a\n- b\n", "a list"), ("just words\n", "a text")]
)
def test_a_file_that_holds_no_mapping_is_refused(path: Path, text: str, kind: str) -> None:
    (problem,) = problems_of(path, text)
    assert re.match(rf"1: .* {kind}[; ]", problem)


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(InputError, match=r"tiny\.yaml: .*No such file"):
        load_config(path)


def test_a_file_that_is_not_text_is_refused(path: Path) -> None:
    path.write_bytes(b"tournament_id: \xff\xfe\n")
    with pytest.raises(InputError, match=r"tiny\.yaml:1: .*not UTF-8"):
        load_config(path)


@pytest.mark.parametrize("written", ["", "null", "ada", "{ada: 1}", "[1, null, [x]]"])
def test_entrants_that_are_no_list_of_entrants_are_refused(path: Path, written: str) -> None:
    start, end = GOOD.index("entrants:"), GOOD.index("ratings:")
    problems = problems_of(path, f"{GOOD[:start]}entrants: {written}\n{GOOD[end:]}")
    assert all(problem.startswith("14: entrants") for problem in problems)


def test_an_unknown_key_is_told_with_the_extras_that_could_have_added_it(path: Path) -> None:
    (problem,) = problems_of(path, f"{GOOD}polls: {{}}\n")
    assert "unknown key 'polls'; expected one of " in problem
    assert problem.endswith(f"installed extras are {', '.join(installed_extras()) or 'none'}")


SERVED = """\
  - entrant_id: ada
    loader: openai_api
    base_url: {env: SERVED_URL}
    model: base
    api_key_env: SERVED_KEY
"""


def served(old: str = "", new: str = "") -> str:
    recorded = """\
  - entrant_id: ada
    loader: recorded
    responses: {path: ada.jsonl}
"""
    return edited(recorded, SERVED.replace(old, new) if old else SERVED)


def test_a_served_entrant_is_read(path: Path) -> None:
    ada = load(path, served()).config.entrants[0]
    assert isinstance(ada, OpenAiApiEntrant)
    assert (ada.base_url.env, ada.model, ada.max_concurrency) == ("SERVED_URL", "base", 8)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("env: SERVED_URL", "url: 'ftp://a'", "17: entrants.0.base_url: the URL begins with 'ftp'"),
        ("env: SERVED_URL", "link: a", "17: unknown key 'entrants.0.base_url.link'; expected one"),
        ("model: base", "modell: base", "did you mean 'model'?"),
        ("api_key_env: SERVED_KEY", "api_key: sk-hidden", "did you mean 'api_key_env'?"),
        ("SERVED_KEY", "sk-hidden", "19: entrants.0.api_key_env: the value is not shown"),
        ("env: SERVED_URL", "url: 'http://me:hidden@a'", "holds a user name, a query or a frag"),
    ],
)
def test_what_is_wrong_with_a_served_entrant_is_told_without_secrets(
    path: Path, old: str, new: str, problem: str
) -> None:
    problems = problems_of(path, served(old, new))
    assert [each for each in problems if problem in each]
    assert "hidden" not in str(problems)


BOUGHT = SERVED.replace("openai_api", "anthropic_api").replace(
    "    base_url: {env: SERVED_URL}\n", ""
)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("api_key_env: SERVED_KEY", "api_key: sk-hidden", "18: unknown key 'entrants.0.api_key'"),
        ("api_key_env: SERVED_KEY", "temperature: 2", "18: entrants.0.temperature is 2; expected"),
        ("api_key_env: SERVED_KEY", "max_tokens: 9", "did you mean 'max_new_tokens'?"),
    ],
)
def test_what_is_wrong_with_a_bought_entrant_is_told_without_secrets(
    path: Path, old: str, new: str, problem: str
) -> None:
    problems = problems_of(path, served().replace(SERVED, BOUGHT).replace(old, new))
    assert [each for each in problems if problem in each], problems
    assert "hidden" not in str(problems)


HYDRA = """\
  - entrant_id: poe
    loader: custom_poe
    weights: {env: BASE}
    hydra:
      n_head: 9
      security:
        folder: {environment: SHARDS}
        rang: 8
"""


def test_a_misspelled_key_deep_inside_an_entrant_is_told_with_its_line(path: Path) -> None:
    text = edited("ratings:\n", HYDRA + "ratings:\n")
    first = text[: text.index("      n_head")].count("\n") + 1
    problems = problems_of(path, text)
    expected = [
        (first, "unknown key 'entrants.3.hydra.n_head'", "did you mean 'n_heads'?"),
        (first + 2, "unknown key 'entrants.3.hydra.security.folder.environment'", "builtin, env"),
        (first + 3, "unknown key 'entrants.3.hydra.security.rang'", "did you mean 'rank'?"),
    ]
    for line, problem, hint in expected:
        assert any(p.startswith(f"{line}: {problem}") and hint in p for p in problems), problems


def with_gateway(address: str) -> str:
    claude = f"  - service: anthropic\n    base_url: {address}\n    model: claude-1\n"
    return edited("  - service: loopback\n    model: loopback-large\n", claude)


def test_where_the_judge_is_asked_is_configured_and_part_of_no_result(path: Path) -> None:
    config = load(path, with_gateway("https://gateway.example/anthropic")).config
    assert config.judges[0].base_url == "https://gateway.example/anthropic"
    elsewhere = load(path, with_gateway("http://10.0.0.7:8080")).config
    assert elsewhere.fingerprint == config.fingerprint


@pytest.mark.parametrize(
    "address",
    [
        "https://ada:hunter2@gateway.example",
        "https://hunter2@gateway.example",
        "https://gateway.example?key=hunter2",
        "['https://ada:hunter2@gateway.example']",
        "{url: 'https://ada:hunter2@gateway.example'}",
        "https://ada:hunter2@gateway.example:port",
    ],
)
def test_a_gateway_with_a_secret_in_its_address_is_refused_and_the_secret_not_shown(
    path: Path, address: str
) -> None:
    (problem,) = problems_of(path, with_gateway(address))
    assert "judges.0.base_url" in problem
    assert "hunter2" not in problem
    with pytest.raises(ValidationError) as caught:
        Judge.model_validate({"service": "anthropic", "model": "claude-1", "base_url": address})
    assert "hunter2" not in str(caught.value)


def test_the_loopback_judge_takes_no_address(path: Path) -> None:
    text = edited("  - service: loopback\n", "  - service: loopback\n    base_url: http://h\n")
    (problem,) = problems_of(path, text)
    assert re.search(r"\banthropic\b.*\bopenai_batch\b.*\bopenai_api\b", problem)


def test_one_file_for_two_dimensions_is_refused(path: Path) -> None:
    text = edited(
        "    rubric: rubrics/factuality.txt",
        "    rubric: rubrics/factuality.txt\n  tone:\n    rubric: ./rubrics/factuality.txt",
    )
    (problem,) = problems_of(path, text)
    assert re.match(r"11: .*is the rubric of 'factuality', too", problem)
