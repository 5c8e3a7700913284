from pathlib import Path

from click.testing import CliRunner

from tests.projects import bank_rows, write_json_lines
from tournament_assets.cli import main


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.output


def test_validating_a_bank_counts_what_is_in_it(tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    write_json_lines(bank, bank_rows())
    code, output = run("bank", "validate", str(bank))
    assert code == 0
    assert "12 prompts" in output
    assert "curated 4, recall 8" in output


def test_validating_a_broken_bank_names_the_line(tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    write_json_lines(bank, [*bank_rows(), {"text": "no id", "source": "recall"}])
    code, output = run("bank", "validate", str(bank))
    assert code == 2
    assert "bank.jsonl:13: " in output
    assert "'prompt_id'" in output


def medqa_rows(count: int) -> list[dict[str, object]]:
    return [
        {
            "question": f"A {20 + number}-year-old patient has sign number {number} on the left "
            "arm after a long walk. What is the most likely diagnosis?",
            "answer": f"Condition {number}",
            "options": {"A": f"Condition {number}", "B": "Another one", "C": "A third", "D": "X y"},
            "answer_idx": "A",
            "meta_info": "step1",
        }
        for number in range(count)
    ]


def test_a_bank_is_imported_from_a_file_of_another_tool(tmp_path: Path) -> None:
    source, out = tmp_path / "x.csv", tmp_path / "bank.jsonl"
    source.write_text("question,answer\nWhy?,So.\nHow?,\n")
    mapped = ("--map", "text=question", "--map", "gold_answer=answer", "--set", "source=wild")
    code, output = run("bank", "import", str(source), *mapped, "--out", str(out))
    assert (code, f"{out}: 2 prompts (columns)" in output) == (0, True)
    assert run("bank", "validate", str(out))[0] == 0
    code, output = run("bank", "import", str(source), "--map", "question", "--out", str(out))
    assert (code, "FIELD=VALUE" in output) == (2, True)


def test_building_a_bank_twice_gives_the_same_file_and_never_overwrites_one(
    tmp_path: Path,
) -> None:
    source = tmp_path / "medqa.jsonl"
    write_json_lines(source, [{**row, "hint": row["answer"]} for row in medqa_rows(9)])
    outputs = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for out in outputs:
        code, output = run(
            "bank", "build", "--medqa", str(source), "--medqa-count", "4", "--out", str(out)
        )
        assert code == 0, output
        assert "medqa: 9 read" in output
        assert "not used: hint (9 of 9 filled)" in output
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert run("bank", "validate", str(outputs[0]))[0] == 0
    code, output = run(
        "bank", "build", "--medqa", str(source), "--medqa-count", "4", "--out", str(outputs[0])
    )
    assert code == 2
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_the_first_option_of_cop_can_be_said(tmp_path: Path) -> None:
    source, out = tmp_path / "medmcqa.jsonl", tmp_path / "bank.jsonl"
    options = {"opa": "Uric acid", "opb": "Oxalate", "opc": "Calcium", "opd": "Iron"}
    write_json_lines(source, [{"question": "Which crystals cause gout?", **options, "cop": 1}])
    asked = ("bank", "build", "--medmcqa", str(source), "--medmcqa-count", "1", "--out", str(out))
    assert run(*asked)[0] == 2
    code, output = run(*asked, "--medmcqa-cop-base", "1")
    assert (code, "Uric acid" in out.read_text()) == (0, True), output
