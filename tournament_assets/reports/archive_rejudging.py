"""What `tournament archive rejudge` says: what failed, what was written, what is left."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tournament_assets.adapters.archive_rejudging import FailedJudging, Rewritten
from tournament_assets.audits.archive_scores import counts_judge, follows_rule
from tournament_assets.reports.archive_tables import LISTED
from tournament_assets.reports.rendering import ReportSection, ReportTable
from tournament_assets.reports.terminal import shown
from tournament_assets.tournament.archived_runs import ArchiveContents
from tournament_assets.tournament.archives import ArchiveConfig

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 60


def failure_sections(failed: Sequence[FailedJudging], config: ArchiveConfig) -> list[ReportSection]:
    """Say about which runs judging failed, and which of them can be judged again."""
    if not failed:
        return [ReportSection("Judging", ("Nothing to judge again: no judging failed.",))]
    asked = [each for each in failed if each.request is not None]
    counting = sum(counts_judge(each.run, config.scores) for each in asked)
    sentences = [
        f"Judging failed for {len(failed)} runs; {len(asked)} of them can be judged again. In "
        f"{counting} of these the judge's score is part of the run's.",
    ]
    if len(failed) > LISTED:
        sentences.append(
            f"The first {LISTED} are shown; `tournament archive audit --json` has all."
        )
    rows = [
        (
            each.run.path,
            _shorten(each.run.judge_reason) or "no reason",
            each.problem or "can be judged again",
        )
        for each in failed[:LISTED]
    ]
    table = ReportTable(("run", "what stands in the reason's place", "now"), tuple(rows), 3)
    return [ReportSection("Judging that failed", tuple(sentences), (("", table),))]


def rule_warning(contents: ArchiveContents, config: ArchiveConfig) -> str:
    """Say if the configured rule is not the one that the archive was scored by."""
    follows = [follows_rule(run, config.scores) for run in contents.runs]
    off = follows.count(False)
    if not off:
        return ""
    return (
        f"warning: {off} of {len(follows) - follows.count(None)} recorded run scores are not what "
        "the rule gives, so scores does not describe how the harness scores every task; runs that "
        "are scored likewise are left as they are."
    )


def print_rejudging(
    written: Sequence[Rewritten], left: Sequence[str], console: "Console", *, n_replies: int
) -> None:
    """Print what was written into files, and what has no score yet."""
    for each in written:
        console.print(
            f"{shown(each.run.path)}: judge {each.judge_score:g}, run score "
            f"{each.run.run_score:g} → {each.run_score:.6g}",
            markup=False,
            soft_wrap=True,
        )
    for problem in left:
        console.print(shown(problem), style="yellow", markup=False, soft_wrap=True)
    console.print(
        f"{n_replies} replies received; {len(written)} files rewritten; {len(left)} left."
    )


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
