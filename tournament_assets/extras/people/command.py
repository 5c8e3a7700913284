"""`tournament label`: people say which response is better."""

import os
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from tournament_assets.cli import echo
from tournament_assets.cli.options import (
    config_option,
    find_config,
    plan_of_mode,
    stored_tables,
)
from tournament_assets.extras.people.assets import label_worths
from tournament_assets.extras.people.label_records import (
    LabelRecords,
    LabelSample,
    clean_rater,
    compared,
)
from tournament_assets.extras.people.labelling.page import LabelDesk, write_label_page
from tournament_assets.extras.people.labelling.sampling import (
    draw_label_sample,
    extend_by_worth,
    pairs_to_label,
)
from tournament_assets.extras.people.labelling.server import (
    TOKEN_VARIABLE,
    create_label_app,
    rater_key,
    serve_labelling,
)
from tournament_assets.extras.people.votes import (
    ReadingOptions,
    import_foreign_votes,
    import_votes,
    votes_by_rater,
)
from tournament_assets.foundation.errors import Problems
from tournament_assets.graph.assets.verdicts import judge_verdicts
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.serving.web_access import require_access
from tournament_assets.storage.tables import AnyTable, PairKey, pair_key, rows_of
from tournament_assets.tournament.asset_rows import VerdictRow
from tournament_assets.verdicts.judge_requests import open_ledger

_PORT = 8791
_SAMPLE = 120


@click.group("label", invoke_without_command=True)
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="The tournament's YAML, such as configs/demo.yaml; by default the only one in configs/.",
)
@click.option(
    "--mode", metavar="MODE", help="Label pairs of this mode: pilot, headline or another; needed."
)
@click.option("--dimension", metavar="NAME", help="Label this quality; in general by default.")
@click.option(
    "--sample",
    "size",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"How many pairs; {_SAMPLE} at first, then as before. A larger number adds pairs.",
)
@click.option("--rater", "raters", multiple=True, metavar="NAME", help="A rater. May be repeated.")
@click.option(
    "--overlap",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Share of the pairs that every rater is asked about; 0.2 at first.",
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Seeds the draw; 0 at first.")
@click.option(
    "--stratify",
    type=click.Choice(["judge"]),
    help="Draw equally many pairs of each verdict of the judge, with known chances.",
)
@click.option(
    "--next",
    "n_next",
    type=click.IntRange(min=1),
    metavar="N",
    help="Draw N more pairs, mainly those whose labels would narrow the intervals most.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="The page's port; 0 takes a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help=f"The page's address; any other needs a secret in {TOKEN_VARIABLE}.",
)
@click.option("--no-browser", is_flag=True, help="Only print the addresses.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT.html",
    help="Write one self-contained file to send to the rater, and serve nothing.",
)
def label_group(
    config_path: Path | None,
    mode: str | None,
    dimension: str | None,
    raters: tuple[str, ...],
    out: Path | None,
    port: int,
    host: str,
    no_browser: bool,
    **drawing: Any,
) -> None:
    """Let people compare a random sample of a mode's pairs, in a browser, without seeing names.

    Serves a page on this machine until interrupted. Every vote is in the ledger the moment it is
    given: close the page or kill the server at any time, and begin again where you stopped.
    Several raters can work at once, each under a name of their own.
    """
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        return
    config_path = find_config(context, None, config_path)
    if mode is None:
        raise click.UsageError("Missing option '--mode'.")

    # Not on the command line, which other users of the machine can see.
    token = os.environ.get(TOKEN_VARIABLE) or None
    require_access(host, token, variable=TOKEN_VARIABLE)
    names = list({compared(name): name for name in map(clean_rater, raters)}.values())
    if out is not None and len(names) != 1:
        raise click.UsageError("--out writes the page of one rater: give one --rater.")
    plan = plan_of_mode(config_path, mode)
    with open_ledger(plan.project.ledger_url) as ledger:
        pairs = pairs_to_label(plan, mode, dimension, ledger=ledger)
        records = LabelRecords.of(ledger)
        sample = _Scope(plan, mode, dimension, pairs, records).draw(_DrawOptions(**drawing))
        salt = records.label_salt(sample.sample_id)
        desk = LabelDesk.of(plan, sample, pairs, salt=salt)
        _print_sample(sample)
        if out is not None:
            count = write_label_page(out, desk, names[0], ledger=records, raters=names)
            echo(f"{out}: {count} pairs for {names[0]}; send it, and take the votes back by")
            echo(f"  tournament label import --config {plan.shown_path} votes.json")
            return
        app = create_label_app(desk, ledger=records, raters=names, token=token)

        def ready(address: str) -> None:
            secret = {} if token is None else {"token": token}
            for name in names or [""]:
                own = {"rater": name, "key": rater_key(desk, name)} if name else {}
                query = urlencode({**secret, **own})
                echo(f"{name or 'any rater'}: {address}/{'?' if query else ''}{query}")
                if not no_browser and name in (*names[:1], ""):
                    webbrowser.open(f"{address}/{'?' if query else ''}{query}")
            echo("Ctrl-C ends it; nothing is lost.")

        try:
            serve_labelling(app, host=host, port=port, on_ready=ready)
        except KeyboardInterrupt:
            echo("")
        for name, count in votes_by_rater(records.iterate_votes(sample.sample_id)).items():
            echo(f"{name}: {count} pairs labelled")


@dataclass(frozen=True, slots=True)
class _DrawOptions:
    """How pairs are drawn; None is as before, or as at first."""

    size: int | None
    overlap: float | None
    seed: int | None
    stratify: str | None
    n_next: int | None

    @property
    def draws_anew(self) -> bool:
        """Whether any option changes the draw."""
        values = (self.size, self.overlap, self.seed, self.stratify)
        return any(value is not None for value in values)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The pairs that people are asked about, and the records of their labels."""

    plan: TournamentPlan
    mode: str
    dimension: str | None
    pairs: list[PairToJudge]
    records: LabelRecords

    def draw(self, options: _DrawOptions) -> LabelSample:
        """Return the sample, drawing or extending it if needed."""
        if options.n_next is not None and options.draws_anew:
            raise click.UsageError(
                "--next extends the sample as it was drawn: give no --sample, --seed, "
                "--overlap or --stratify with it."
            )
        while True:
            before = self.records.label_sample(self.plan.tournament_id, self.mode, self.dimension)
            if options.n_next is not None:
                sample = self._add_next(before, options.n_next)
            elif before is not None and before.method != "random" and not options.draws_anew:
                return before
            else:
                sample = self._extend(before, options)
                drawn = sample.pairs, sample.overlap
                if before is not None and (before.pairs, before.overlap) == drawn:
                    return before
            if self.records.keep_label_sample(sample):
                return sample

    def _extend(self, before: LabelSample | None, options: _DrawOptions) -> LabelSample:
        size, seed, overlap = _SAMPLE, 0, 0.2
        if before is not None:
            size, seed, overlap = len(before.pairs), before.seed, before.overlap
        strata: dict[PairKey, str] | None = None
        if options.stratify is not None or (before is not None and before.method == "judge"):
            problem = "--stratify judge needs a --dimension, which the verdicts are on."
            strata = {
                pair_key(row): ("one side wins" if row.winner is not None else row.outcome)
                for row in rows_of(VerdictRow, self._verdicts(problem))
            }
        return draw_label_sample(
            self.pairs,
            tournament_id=self.plan.tournament_id,
            mode=self.mode,
            dimension=self.dimension,
            size=options.size or size,
            seed=seed if options.seed is None else options.seed,
            overlap=overlap if options.overlap is None else options.overlap,
            strata=strata,
            before=before,
        )

    def _add_next(self, before: LabelSample | None, n_next: int) -> LabelSample:
        """Extend the sample by the pairs whose labels would narrow the intervals most."""
        verdicts = self._verdicts("--next needs a --dimension, whose verdicts it looks at.")
        if before is None:
            raise click.UsageError(
                "--next extends a sample, and none is drawn: label a random one first, without it."
            )
        labels = tuple(self.records.labels(before.tournament_id, self.mode, self.dimension))
        worth = label_worths(self.plan.config, labels, verdicts)
        return extend_by_worth(self.pairs, before, worth, n_new=n_next)

    def _verdicts(self, problem: str) -> AnyTable:
        if self.dimension is None:
            raise click.UsageError(problem)
        stored = stored_tables(self.plan, self.mode)
        tables = stored.by_name(judge_verdicts.__name__, [self.dimension])
        return tables[self.dimension]


def _print_sample(sample: LabelSample) -> None:
    quality = sample.dimension or "in general"
    drawn = {
        "random": "drawn at random",
        "judge": "drawn by the judge's verdicts",
        "active": "drawn where a label is worth most",
    }
    how = drawn.get(sample.method, "as they were given")
    echo(
        f"{sample.tournament_id}, {sample.mode}, {quality}: {len(sample.pairs)} of "
        f"{sample.frame_size} pairs, {how} (seed {sample.seed}), "
        f"{sum(pair.shared for pair in sample.pairs)} of them for every rater"
    )
    if sample.same_text:
        echo(
            f"  {sample.same_text} pairs of the same text are left out: there is nothing to choose"
        )


@label_group.command("import")
@config_option
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["votes", "lmsys"]),
    default="votes",
    show_default=True,
    help="votes: a file that a page of --out saved. lmsys: a vote a row; needs --mode.",
)
@click.option("--mode", metavar="MODE", help="The mode whose pairs another tool's labels are on.")
@click.option("--dimension", metavar="NAME", help="The quality labelled; in general by default.")
@click.option("--rater", metavar="NAME", help="Who labelled, if the file does not say.")
@click.option("--sides", type=(str, str), metavar="A B", help="The columns of the two responses.")
@click.option(
    "--random", "is_random", is_flag=True, help="The pairs are a random draw of all pairs."
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def label_import_command(
    plan: TournamentPlan,
    files: tuple[Path, ...],
    format_name: str,
    mode: str | None,
    dimension: str | None,
    is_random: bool,
    **reading: Any,
) -> None:
    """Import votes that pages of --out saved, or labels of other tools. Repeating it adds nothing.

    Other tools' labels count for pairs of the sample that was drawn here. If none was drawn,
    --random says that the labelled pairs are a random draw, and they become the sample.
    """
    problems = Problems()
    with open_ledger(plan.project.ledger_url) as ledger:
        records = LabelRecords.of(ledger)
        if format_name == "votes":
            for path in files:
                with problems.collected():
                    votes = import_votes(path, tournament_id=plan.tournament_id, ledger=records)
                    echo(f"{path}: {votes.votes} votes of {votes.rater}, {votes.added} new")
            problems.raise_if_any()
            return
        if mode is None:
            raise click.UsageError(f"--format {format_name} needs a --mode.")
        pairs = pairs_to_label(plan, mode, dimension, ledger=ledger)
        for path in files:
            with problems.collected():
                votes = import_foreign_votes(
                    path,
                    options=ReadingOptions(**reading),
                    pairs=pairs,
                    scope=(plan.tournament_id, mode, dimension),
                    is_random=is_random,
                    ledger=records,
                )
                echo(f"{path}: {votes.votes} votes, {votes.added} new")
                for reason, count in votes.left_out.items():
                    echo(f"  left out, {reason}: {count}")
                if votes.note:
                    echo(f"  {votes.note}")
        problems.raise_if_any()
