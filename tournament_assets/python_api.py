"""Tournaments, runs, ratings and comparisons in Python; `tournament_assets` exports the names.

Every result holds its values, offers them as a pandas frame, and displays itself in a notebook. The
`tournament` command uses the same functions and files.
"""

import os
import re
import warnings as python_warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from tournament_assets.battles.columnar import Columns, frame_parts
from tournament_assets.battles.columns import BATTLE_SCHEMA, Preferences, plain_type
from tournament_assets.battles.files import BattleFile
from tournament_assets.battles.rating import (
    battle_methods,
    need_every_battle,
    rate_battles,
)
from tournament_assets.battles.registry import pool_battles, read_battles
from tournament_assets.foundation.arguments import checked
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import expect_one_of, expected_share
from tournament_assets.graph.plain_runs import PlainRun, run_plainly, run_unrecorded
from tournament_assets.graph.run_options import RunOptions
from tournament_assets.preparing.estimates import estimate_tournament
from tournament_assets.project.config_files import load_config, write_config
from tournament_assets.project.new_projects import (
    NewTournament,
    write_new_project,
    written_rubrics,
)
from tournament_assets.project.plan import TournamentPlan, load_plan
from tournament_assets.python_results import (
    Comparison,
    GateResult,
    Picture,
    PriceEstimate,
    Ratings,
    Shown,
    show_html,
)
from tournament_assets.recorded.answer_tables import ColumnRole, frame_answers, read_answers
from tournament_assets.reports.csv_tables import read_csv_table
from tournament_assets.reports.figures.canvas import to_svg
from tournament_assets.reports.figures.ladder import draw_ladders
from tournament_assets.reports.leaderboard import leaderboard_sections
from tournament_assets.reports.report_tables import Document, ReportSection, ReportTable
from tournament_assets.run_comparison.comparison import (
    compare_runs,
)
from tournament_assets.run_comparison.gate import (
    GateSettings,
    hold_gate,
)
from tournament_assets.run_comparison.run_reading import FinishedRun, read_finished_runs
from tournament_assets.storage.run_directory import find_runs, read_manifest
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow, by_dimension
from tournament_assets.tournament.battles import BattleSource, RatingSettings
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.judges import label_judges


@checked
def load(
    config: str | Path | Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    folder: str | Path = ".",
) -> "Tournament":
    """Return the tournament that a configuration describes.

    No setup is needed: like the `tournament` command, a run creates its Dagster home, its ledger
    and its run directories in the config's project folder.

    Args:
        config: The YAML file, or its keys as a dict, which is written to
            `configs/<tournament_id>.yaml`, so that the command line and the UI know it as well.
        environment: Environment variables to use instead of the process's, such as a judge's API
            key or `DAGSTER_HOME`.
        folder: The project's folder, if the config is a dict.

    Raises:
        InputError: With every problem of the config, each with its line, or of a dict its key.

    Example:
        >>> import tournament_assets as ta
        >>> tournament = ta.load("configs/demo.yaml")
        >>> tournament.estimate("pilot").requests
        >>> run = tournament.run("pilot")
        >>> run.frame[["dimension", "entrant_id", "mean"]]
    """
    path = write_config(config, Path(folder)) if isinstance(config, Mapping) else Path(config)
    tournament = Tournament(path, environment)
    _ = tournament.config
    return tournament


@checked
def open_run(directory: str | Path) -> "Run":
    """Return the finished run in a directory.

    Args:
        directory: Such as `runs/pilot_20261104T101500Z`.

    Raises:
        InputError: If it is not the directory of a finished run.

    Example:
        >>> ta.open_run("runs/pilot_20261104T101500Z").frame
    """
    return Run(Path(directory), read_manifest(Path(directory)))


@checked
def rate(
    battles: pd.DataFrame,
    method: str | Sequence[str] = "bradley-terry",
    *,
    dimensions: Sequence[str] = (),
    settings: RatingSettings | None = None,
    preferences: Preferences = "share",
) -> Ratings:
    """Return ratings computed from battles alone, as `tournament battles rate` does.

    Args:
        battles: One battle per row: `model_a`, `model_b`, `winner` (`model_a`, `model_b` or `tie`),
            and optionally `question_id`, `dimension`, `weight`, `pref` and the other columns of a
            battle file. Include `question_id`: intervals resample whole prompts.
        method: `bradley-terry`, `elo` or `davidson`, or several of them.
        dimensions: Rate only these; all if empty.
        settings: How to rate; by default as a tournament's config does. `run.rating_settings`
            reproduces the run's numbers bit for bit.
        preferences: Whether to split a battle's win by its `pref`, if any, instead of giving it all
            to `winner`.

    Raises:
        InputError: If the battles (with all their errors, the first 50 spelled out), the method or
            the settings are invalid.
        RatingError: If a likelihood could not be maximised.

    Example:
        >>> battles = pd.DataFrame({"model_a": ["ada"], "model_b": ["bob"], "winner": ["model_a"]})
        >>> ta.rate(battles, method="elo").frame
    """
    methods: Sequence[str] = (method,) if isinstance(method, str) else tuple(method)
    if unknown := [each for each in methods if each not in battle_methods()]:
        raise InputError(
            f"the rating method is {each!r}; {expect_one_of(each, battle_methods())}"
            for each in unknown
        )
    if missing := [name for name in ("model_a", "model_b", "winner") if name not in battles]:
        raise InputError(
            f"the frame has no column {', '.join(map(repr, missing))}; it has "
            f"{', '.join(map(str, battles.columns)) or 'none'}; rename the columns that name them"
        )
    # Who judged does not change a rating, so a frame may lack that column.
    source: BattleSource | None = None if "source" in battles else "llm-judge"
    columns = Columns({name: (name,) for name in BATTLE_SCHEMA.names}, source)

    def open_frame() -> list[BattleFile]:
        left_out = Counter[str]()
        return [BattleFile("frame", frame_parts(battles, columns, left_out), left_out)]

    pooled = pool_battles(
        open_frame,
        changes=(settings or RatingSettings()).to_dict(),
        preferences=preferences,
        keeps=need_every_battle(methods),
    )
    if not pooled.pool.n_battles:
        raise InputError(
            f"the frame holds no battle among its {len(battles)} rows; expected at least one "
            "decided comparison"
        )
    rated = rate_battles(
        pooled.pool, settings=pooled.settings, dimensions=dimensions, methods=methods
    )
    return Ratings(tuple(rated), pooled.settings, pooled.pool.left_out, pooled.warnings)


@checked
def compare_answers(
    answers: pd.DataFrame | str | Path,
    *,
    judge: str,
    rubric: str | Mapping[str, str] | None = None,
    budget: float | None = None,
    columns: Mapping[ColumnRole, str | Sequence[str]] | None = None,
    folder: str | Path = "answers",
    environment: Mapping[str, str] | None = None,
    progress: Callable[[str], object] | None = None,
) -> "Run":
    """Return the finished run of a tournament between answers that exist already.

    It writes a project like `tournament init --from` and runs its headline mode without Dagster.
    Called again with the same folder, it writes the project again and pays only for pairs that are
    new: what was paid for is in the folder's ledger.

    Args:
        answers: A frame or a file: wide (a column for each entrant) or long (`prompt`, `entrant`,
            `response`); with `prompt_id`, `gold_answer` and `source` where they are there. None and
            NaN are no answer, an empty text in a frame is one that says nothing.
        judge: The model, such as `claude-…`, or `service:model`; `loopback-lexical` costs nothing
            and compares words alone.
        rubric: What makes an answer the better one, in words, or by dimension; general helpfulness
            by default.
        budget: The most that judging may cost, in US dollars; a judge that costs money needs one.
        columns: What columns hold, where their names do not say it.
        folder: Where the project is; one that this function did not write is left alone.
        environment: Environment variables to use instead of the process's.
        progress: Called when a step is done; such as `print`.

    Raises:
        InputError: With everything that is wrong with the answers, each with its row and column; or
            if the folder holds another project.
        WorkError: If a step failed; what was paid for until then is in the ledger.

    Example:
        >>> frame = pd.DataFrame({"prompt": ["2 + 2?"], "brief": ["4"], "chatty": ["It is 4."]})
        >>> ta.compare_answers(frame, judge="loopback-lexical").frame
    """
    named: dict[ColumnRole, Sequence[str]] = {
        role: [held] if isinstance(held, str) else held for role, held in (columns or {}).items()
    }
    try:
        table = (
            frame_answers(answers, columns=named or None)
            if isinstance(answers, pd.DataFrame)
            else read_answers(Path(answers), columns=named or None)
        )
    except InputError as error:
        in_python = partial(re.sub, r"--columns (\w+)=(\w+)", r'columns={"\1": "\2"}')
        said = (in_python(each).replace("--columns", "columns") for each in error.problems)
        raise InputError(said) from None
    made = NewTournament(
        table, written_rubrics(rubric), judge=judge, budget_usd=budget, about=_WRITTEN_AGAIN
    )
    project = write_new_project(Path(folder), made, replaces=_WRITTEN_AGAIN)
    return load(project.config, environment=environment).run(
        "headline", record=False, progress=progress
    )


_WRITTEN_AGAIN = "Written by tournament_assets.compare_answers, which writes it again when called."


@checked
def compare(
    run_a: "Run | str | Path", run_b: "Run | str | Path", *, tolerance: float | None = None
) -> Comparison:
    """Return the comparison of two finished runs: what differs, and whether the results agree.

    Args:
        run_a: The first run, or its directory.
        run_b: The second run, or its directory.
        tolerance: Tolerated share of flips; by default that of the second run's config.

    Raises:
        InputError: If a file of either run is missing or unreadable.

    Example:
        >>> before, after = tournament.runs("pilot")[-2:]
        >>> ta.compare(before, after).sameness
    """
    folders = [run.directory if isinstance(run, Run) else Path(run) for run in (run_a, run_b)]
    return Comparison(compare_runs(*read_finished_runs(folders), tolerance=tolerance))


@dataclass(frozen=True)
class Tournament(Shown):
    """A tournament defined by a configuration file, which is read again at every use.

    Attributes:
        config_path: The YAML file.
        environment: The environment variables; those of the process if None.
    """

    config_path: Path
    environment: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def config(self) -> TournamentConfig:
        """The configuration as the file has it now.

        Raises:
            InputError: With every problem of the file, each with its line.
        """
        return load_config(self.config_path).config

    @checked
    def estimate(
        self, mode: Mode, *, judge_model: str | None = None, count_tokens: bool = False
    ) -> PriceEstimate:
        """Return the estimated cost of judging, without asking the judge.

        Args:
            count_tokens: Let the service count the tokens of a sample of requests, which is free.

        Raises:
            InputError: If the config, the bank, a rubric or a recorded file cannot be used.
            JudgeError: If the service cannot count tokens.
        """
        plan = self._plan(mode)
        return PriceEstimate(
            estimate_tournament(plan, mode, judge_model=judge_model, counts_tokens=count_tokens)
        )

    @checked
    def run(
        self,
        mode: Mode,
        *,
        judge_model: str | None = None,
        limit_pairs: int | None = None,
        skip_judging: bool = False,
        partial: bool = False,
        output_dir: str | Path | None = None,
        record: bool = True,
        progress: Callable[[str], object] | None = None,
    ) -> "Run":
        """Return the finished run of a mode, made from the prompts to the report.

        Nothing that the ledger holds is generated or judged again, so an interrupted run continues
        where it stopped, and a second run costs nothing.

        Args:
            judge_model: Ask this model instead of the configured one.
            limit_pairs: Judge only the first pairs of each dimension; for trying things out.
            skip_judging: Rate what the ledger holds, ask nothing.
            partial: Rate although some presentations have no reply yet.
            output_dir: Where the run directory goes; `runs/` in the project folder by default.
            record: Whether to run it through Dagster, so that the UI shows it and a later run makes
                only what is out of date. Otherwise everything is made without Dagster, in a third
                of the time; ledger, budget, numbers and run directory are the same.
            progress: Called when a step is done; such as `print`.

        Raises:
            InputError: If any input cannot be used; nothing has been spent then.
            WorkError: If a step failed; what was paid for until then is in the ledger.
        """

        def tell(title: str, label: str) -> None:
            if progress is not None:
                progress(f"{title} ({label})" if label else title)

        plan = self._plan(mode)
        options = RunOptions(
            mode=mode,
            judge_model=judge_model,
            limit_pairs=limit_pairs,
            skip_judging=skip_judging,
            partial=partial,
            output_dir=None if output_dir is None else Path(output_dir),
        )
        if record:
            from tournament_assets.launching import run_tournament

            done = run_tournament(
                plan,
                options,
                on_start=lambda *_: None,
                on_done=lambda stage, label: tell(stage.title, label),
            )
        else:
            done = run_unrecorded(plan, options, on_done=tell)
        return Run(done.directory, read_manifest(done.directory), done.warnings)

    @checked
    def tables(
        self,
        mode: Mode,
        *,
        until: str | None = None,
        given: Mapping[tuple[str, str], Any] | None = None,
        folder: str | Path | None = None,
        limit_pairs: int | None = None,
        skip_judging: bool = False,
    ) -> PlainRun:
        """Return a mode's tables, made without Dagster; for inspection and experiments.

        Like every run, this asks the judge and uses the ledger.

        Args:
            until: Make only this asset, such as `judge_verdicts`, and what it needs; by default
                everything.
            given: Tables to use instead of making them, as rows or a data frame, by asset and by
                the partition's entrant or dimension (empty if it has none).
            folder: Where to write the tables as Parquet files; by default nowhere.
            limit_pairs: Judge only the first pairs of each dimension.
            skip_judging: Rate what the ledger holds, ask nothing.

        Raises:
            InputError: If the config, an input or an asset's name cannot be used.
            WorkError: If a step failed; what was paid for until then is in the ledger.

        Example:
            >>> ta.load("configs/demo.yaml").tables("pilot", until="match_list")
        """
        return run_plainly(
            self._plan(mode),
            RunOptions(mode=mode, limit_pairs=limit_pairs, skip_judging=skip_judging),
            until=until,
            values=given,
            folder=None if folder is None else Path(folder),
        )

    @checked
    def runs(self, mode: Mode, *, output_dir: str | Path | None = None) -> tuple["Run", ...]:
        """Return the finished runs of a mode, in the order in which they finished.

        Directories that cannot be read are skipped with a warning.

        Args:
            output_dir: Where the run directories are, if not in the project folder's `runs/`.
        """
        file = load_config(self.config_path)
        file.config.mode(mode)
        folder = file.project / "runs" if output_dir is None else Path(output_dir)
        found = find_runs(folder, tournament_id=file.config.tournament_id, mode=mode)
        for problem in found.problems:
            python_warnings.warn(problem, stacklevel=2)
        return tuple(open_run(directory) for directory in found.directories)

    def _plan(self, mode: Mode) -> TournamentPlan:
        """Return what the file says now, if it has the mode."""
        variables = os.environ if self.environment is None else self.environment
        plan = load_plan(self.config_path, variables)
        plan.config.mode(mode)
        return plan

    def _document(self) -> Document:
        config = self.config
        facts = (
            ("config", str(self.config_path)),
            ("entrants", ", ".join(config.entrant_ids)),
            ("dimensions", ", ".join(config.dimension_names)),
            ("judge", label_judges(config.judges)),
        )
        table = ReportTable(("", ""), facts, look="pairs")
        section = ReportSection("", (), (("What it is", table),))
        return Document(f"Tournament {config.tournament_id}", [section])


@dataclass(frozen=True)
class Run(Shown):
    """A finished run.

    Attributes:
        directory: Its directory, with the report and every file that it wrote.
        manifest: What `manifest.json` says: inputs, versions, times, costs.
        warnings: The asset checks' findings, one sentence each; None for a run opened from its
            directory, whose report lists them.
    """

    directory: Path
    manifest: Mapping[str, Any] = field(repr=False)
    warnings: tuple[str, ...] | None = field(default=None, repr=False)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The leaderboard, best first within each dimension; columns as in table `leaderboard`.

        Raises:
            InputError: If the run has no such file, or one of another version.
        """
        return read_csv_table(LeaderboardRow, self.directory / "leaderboard.csv")

    @cached_property
    def win_rates(self) -> pd.DataFrame:
        """Wins, losses and ties of every two entrants; columns as in table `win_rates`.

        The last two are the margin within which two are equivalent: `margin_elo`, in Elo points,
        and `margin_share`, the expected share of the wins of the upper one.
        """
        table = read_csv_table(WinRateRow, self.directory / "pairwise_winrates.csv")
        margin = self.rating_settings.equivalent_within
        return table.assign(margin_elo=margin, margin_share=expected_share(margin))

    @cached_property
    def battles(self) -> pd.DataFrame:
        """Every settled pair as a battle, for use with `rate`."""
        table = read_battles(self.directory / "battles.parquet").table
        schema = pa.schema([(field.name, plain_type(field.type)) for field in table.schema])
        frame: pd.DataFrame = table.cast(schema).to_pandas(types_mapper=pd.ArrowDtype)
        return frame

    @cached_property
    def rating_settings(self) -> RatingSettings:
        """How the run was rated; `rate(run.battles, settings=run.rating_settings)` repeats it.

        Raises:
            InputError: If its battle file does not record them.
        """
        path = self.directory / "battles.parquet"
        settings = read_battles(path).settings
        if settings is None:
            raise InputError(f"{path}: does not say how it was rated; expected a run's own file")
        return settings

    @cached_property
    def ladder(self) -> Picture:
        """Everybody's rating with its sampling interval, all dimensions side by side."""
        ladders = draw_ladders(by_dimension(rows_of(LeaderboardRow, self.frame)))
        return Picture(to_svg(ladders), f"Ratings of {self._title}")

    @property
    def cautions(self) -> tuple[str, ...]:
        """Warnings to read before any number: judge outages, red and amber lights on the judge."""
        outages = self.manifest.get("outages", ())
        trust = self.manifest.get("trust", {})
        lit = (
            f"The judge on {dimension}: {said}: {', '.join(names)}. See the trust panel in the "
            "report before using these ratings."
            for state, said in (("red", "red"), ("amber", "amber, too few to tell"))
            for dimension, lights in trust.items()
            if (names := [name for name, shown in lights.items() if shown == state])
        )
        return (*outages, *lit)

    @checked
    def compare(self, other: "Run | str | Path", *, tolerance: float | None = None) -> Comparison:
        """Return what differs between this run and a later one; see `compare`."""
        return compare(self, other, tolerance=tolerance)

    @checked
    def gate(
        self,
        *,
        candidate: str,
        baseline: str,
        dimensions: Sequence[str] = (),
        margin: float = 20.0,
        confidence: float = 0.95,
        min_coverage: float = 0.98,
    ) -> GateResult:
        """Return whether a candidate is shown not to be worse than a baseline.

        Args:
            candidate: The entrant that is to pass.
            baseline: The entrant that it is compared with.
            dimensions: The dimensions on which it must not be worse; all of the run if empty.
            margin: The largest difference that would not matter, in Elo points.
            confidence: One minus the chance of passing a candidate that is worse by the margin.
            min_coverage: Share of the two entrants' planned pairs that must be settled.

        Raises:
            InputError: If the run has no such entrant or dimension, or a setting is out of range.

        Example:
            >>> assert run.gate(candidate="new", baseline="old").is_not_worse
        """
        asked = GateSettings(
            candidate=candidate,
            baseline=baseline,
            dimensions=tuple(dimensions),
            margin=margin,
            confidence=confidence,
            min_coverage=min_coverage,
        )
        return GateResult(hold_gate(self._finished, asked))

    @cached_property
    def _finished(self) -> FinishedRun:
        (run,) = read_finished_runs([self.directory])
        return run

    @property
    def _title(self) -> str:
        return f"{self.manifest.get('tournament')}, {self.manifest.get('mode')}"

    def _document(self) -> Document:
        sections = leaderboard_sections(
            list(rows_of(LeaderboardRow, self.frame)),
            list(rows_of(WinRateRow, self.win_rates)),
            confidence=self.rating_settings.confidence,
            equivalent_within=self.rating_settings.equivalent_within,
            next_steps=self.manifest["first_screen"]["next_steps"],
        )
        return Document(f"{self._title}: {self.directory.name}", sections, self.cautions)

    def _repr_html_(self) -> str:
        shown = self._document()
        return show_html(
            shown.title,
            shown.sections,
            first_lines=shown.warnings,
            picture=self.ladder.address,
        )
