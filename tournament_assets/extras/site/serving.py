"""The site as `tournament ui` serves it: as of now, with the state of every mode and its rerun."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from tournament_assets.extras.site.site import (
    ModeState,
    SiteRun,
    latest_runs,
    read_runs,
    report_files,
    site_pages,
)
from tournament_assets.foundation.errors import InputError, TournamentError
from tournament_assets.graph.assets.observed_inputs import read_inputs
from tournament_assets.graph.automation.edits import state_of
from tournament_assets.graph.automation.reruns import PARTITION_TAG, find_reruns
from tournament_assets.graph.recipe_book import RecipeBook, causes_by_place, rerun_sentence
from tournament_assets.project.plan import load_plan
from tournament_assets.serving.web_access import PRIVATE_HEADERS, AsgiApplication


def site_app(instance: Any, environment: Mapping[str, str], graph: str) -> AsgiApplication:
    """Return the application that serves the site of a project.

    It serves the site's pages and the reports of finished runs, and no other file.

    Args:
        instance: Dagster's, where materialisations and runs are recorded.
        environment: The environment variables.
        graph: The address of Dagster's pages of the project's definitions.
    """
    site = _Site(instance, environment, graph)

    async def answer(request: Request) -> Response:
        response = await run_in_threadpool(site.answer, request.path_params["path"])
        response.headers.update(PRIVATE_HEADERS)
        return response

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET"])])


class _Site:
    def __init__(self, instance: Any, environment: Mapping[str, str], graph: str) -> None:
        self._instance, self._environment, self._graph = instance, environment, graph
        self._project = Path(environment["TOURNAMENT_PROJECT"])
        self._read: tuple[Any, Sequence[SiteRun]] = ((), ())
        self._states: dict[str, tuple[Any, ModeState]] = {}

    def answer(self, path: str) -> Response:
        try:
            runs = self._runs()
        except InputError as error:
            return PlainTextResponse(str(error), 404)
        latest = latest_runs(runs)
        reports = {name: file for run in runs for name, file in report_files(run).items()}
        moved = {f"latest/{run.stem}/report.html": run.report for run in latest.values()}
        if path in reports:
            return FileResponse(reports[path])
        if path in moved:
            return RedirectResponse(f"/{quote(moved[path])}", 302)
        if path not in ("", "index.html", *latest):
            problem = f"{path!r} is no page of the site; expected one that / leads to"
            return PlainTextResponse(problem, 404)
        shown = latest if path in ("", "index.html") else {path: latest[path]}
        states = {page: self._state(run) for page, run in shown.items()}
        return HTMLResponse(site_pages(runs, states)[path or "index.html"])

    def _runs(self) -> Sequence[SiteRun]:
        """Return the finished runs, read again once there are others."""
        folder = self._project / "runs"
        stamp = [(each, each.stat().st_mtime_ns) for each in folder.glob("[!.]*/manifest.json")]
        if self._read[0] != sorted(stamp) or not stamp:
            self._read = (sorted(stamp), read_runs(folder)[0])
        return self._read[1]

    def _state(self, run: SiteRun) -> ModeState:
        """Return a mode's state, looked at again once anything has changed."""
        try:
            plan = load_plan(self._project / run.config, self._environment, is_guest=True)
            if (plan.tournament_id, run.mode in plan.config.modes) != (run.tournament, True):
                return ModeState(problem=f"{run.config} has no such tournament or mode any more")
            before, stamp = self._states.get(run.page), state_of(plan, self._instance)
            if before and stamp and before[0] == stamp:
                return before[1]
            causes: dict[str, list[str]] = {}
            book = RecipeBook(plan, self._instance, known=read_inputs(plan))
            for place, why in causes_by_place(book, run.mode).items():
                for cause in why:
                    causes.setdefault(cause, []).append(place.asset)
            reruns = find_reruns(self._instance, plan, mode=run.mode)
            tags = {"tags[0][key]": PARTITION_TAG, "tags[0][value]": run.mode}
            state = ModeState(
                {cause: tuple(dict.fromkeys(assets)) for cause, assets in causes.items()},
                rerun=rerun_sentence(plan, run.mode) if causes else "",
                running="; ".join(each.describe() for each in reruns if each.is_unfinished),
                address=f"{self._graph}/jobs/{plan.job('rerun')}/playground/setup?{urlencode(tags)}",
            )
        except TournamentError as error:
            return ModeState(problem=str(error))
        self._states[run.page] = (stamp, state)
        return state
