"""`tournament bank validate | build | import`."""

from collections import Counter
from pathlib import Path
from typing import Any

import click

from tournament_assets.cli import echo
from tournament_assets.extras.banks.bank_building import (
    BankRecipe,
    ImportRecipe,
    build_bank_file,
    import_bank_file,
)
from tournament_assets.project.project_files import load_prompt_bank


@click.group("bank")
def bank_group() -> None:
    """Check, build or import a prompt bank."""


@bank_group.command("validate", short_help="Check every row of a bank.")
@click.argument("bank", type=click.Path(path_type=Path))
def bank_validate_command(bank: Path) -> None:
    """Check every row of a prompt bank, a JSONL file, and count what is in it.

    A row needs prompt_id, text and source. It needs a gold_answer if a dimension compares with
    one, and an expected_behavior (answer, hedge or abstain) if its source is "curated". It may
    have subject, category and tags.
    """
    prompts = load_prompt_bank(bank)
    echo(f"{bank}: {len(prompts)} prompts, all valid")
    _print_counts("source", Counter(prompt.source for prompt in prompts))
    _print_counts("category", Counter(prompt.category or "–" for prompt in prompts))
    behaviors = Counter(
        prompt.expected_behavior for prompt in prompts if prompt.expected_behavior is not None
    )
    _print_counts("expected behavior", behaviors)
    n_gold = sum(prompt.gold_answer is not None for prompt in prompts)
    echo(f"  with a gold answer: {n_gold}")


def _print_counts(title: str, counts: Any) -> None:
    listed = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    echo(f"  by {title}: {listed or 'none'}")


@bank_group.command("build", short_help="Recast multiple-choice files as open questions.")
@click.option("--medmcqa", type=click.Path(path_type=Path), help="MedMCQA, JSONL or Parquet.")
@click.option("--medqa", type=click.Path(path_type=Path), help="MedQA, JSONL or Parquet.")
@click.option("--curated", type=click.Path(path_type=Path), help="Rows to append as they are.")
@click.option("--medmcqa-count", type=click.IntRange(min=0), default=0, help="How many to draw.")
@click.option("--medqa-count", type=click.IntRange(min=0), default=0, help="How many to draw.")
@click.option(
    "--medmcqa-cop-base",
    type=click.Choice(["0", "1"]),
    callback=lambda _context, _option, value: None if value is None else int(value),
    help="What `cop` calls the first option, where the file itself does not show it.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The bank to write.")
def bank_build_command(out: Path, **recipe: Any) -> None:
    """Build a prompt bank from multiple-choice files, recast as open questions.

    Questions that need their options, and answers that name options, are left out and counted.
    The same files, counts and seed give the same bank.
    """
    build = build_bank_file(BankRecipe(**recipe), out)
    for source, counts in sorted(build.counts.items()):
        echo(f"{source}: {counts.read} read, {counts.eligible} fit, {counts.drawn} drawn")
        for reason, count in sorted(counts.left_out.items()):
            echo(f"  left out, {reason}: {count}")
    for note in build.notes:
        echo(f"  {note}")
    echo(f"{out}: {len(build.rows)} prompts")


@bank_group.command("import", short_help="Make a bank from another tool's file or a dataset.")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--format", "format_name", help="The file's format, if its content does not show it.")
@click.option(
    "--map",
    "columns",
    metavar="FIELD=COLUMN",
    multiple=True,
    help="Which column holds a field of the bank, such as text=question; a dot leads into an "
    "object. A field that the bank does not know is kept.",
)
@click.option(
    "--set",
    "values",
    metavar="FIELD=VALUE",
    multiple=True,
    help="A field with the same value for all prompts, such as source=wild.",
)
@click.option("--split", help="The split to take from a dataset's folder.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The bank to write.")
def bank_import_command(
    path: Path, columns: tuple[str, ...], values: tuple[str, ...], out: Path, **recipe: Any
) -> None:
    """Make a prompt bank from another tool's file, or from a Hugging Face dataset.

    FILE is whatever recorded responses are read from (AlpacaEval, arena-hard, lm-eval, inspect,
    CSV …), a file of questions (MT-bench, arena-hard), requests of an OpenAI batch, or the folder
    of a local dataset with Parquet files.
    """
    imported = import_bank_file(
        ImportRecipe(
            path,
            columns=_assignments(columns, "--map"),
            values=_assignments(values, "--set"),
            **recipe,
        ),
        out,
    )
    for reason, count in imported.left_out.items():
        echo(f"left out, {reason}: {count}")
    for note in imported.notes:
        echo(note)
    echo(f"{out}: {imported.n_prompts} prompts ({imported.format})")


def _assignments(values: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in values]
    wrong = [name for name, sign, value in pairs if not (name and sign and value)]
    if wrong:
        raise click.BadParameter(
            f"{', '.join(map(repr, wrong))} is given; expected FIELD=VALUE", param_hint=option
        )
    return {name: value for name, _, value in pairs}
