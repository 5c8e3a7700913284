"""The site as `tournament ui` serves it: as of now, with the state of every mode and its rerun."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from tournament_assets.extras.site.site import (
    SiteRun,
    read_runs,
    report_files,
    site_pages,
    with_state,
)
from tournament_assets.foundation.errors import InputError, TournamentError
from tournament_assets.graph.assets.observed_inputs import read_inputs
from tournament_assets.graph.automation.edits import state_of
from tournament_assets.graph.outputs import Check
from tournament_assets.graph.recipe_book import UP_TO_DATE, RecipeBook, up_to_date
from tournament_assets.project.plan import load_plan
from tournament_assets.serving.web_access import PRIVATE_HEADERS, AsgiApplication


def site_app(instance: Any, environment: Mapping[str, str], graph: str) -> AsgiApplication:
    """Return the application that serves a project's site: its pages and reports, no other file.

    Args:
        instance: Dagster's, where materialisations are recorded.
        environment: The environment variables.
        graph: The address of Dagster's pages of the project's definitions.
    """
    project = Path(environment["TOURNAMENT_PROJECT"])
    read = lru_cache(maxsize=1)(lambda _stamp: read_runs(project / "runs")[0])
    looks: dict[str, tuple[str | None, Check]] = {}

    def look(run: SiteRun) -> Check:
        """Return whether a run is up to date, looked at again once anything has changed."""
        try:
            plan = load_plan(project / run.config, environment, is_guest=True)
            if plan.tournament_id != run.tournament or run.mode not in plan.config.modes:
                raise InputError(f"{run.config} no longer has {run.tournament}, mode {run.mode}")
            stamp = state_of(plan, instance)
            if stamp is None or looks.get(run.page, ("",))[0] != stamp:
                book = RecipeBook(plan, instance, known=read_inputs(plan))
                looks[run.page] = (stamp, up_to_date(book, [run.mode]))
            return looks[run.page][1]
        except TournamentError as error:
            return Check(UP_TO_DATE, passed=False, description=f"it cannot be told: {error}")

    def find(path: str) -> Response:
        manifests = sorted((project / "runs").glob("[!.]*/manifest.json"))
        try:
            runs = read(tuple((each, each.stat().st_mtime_ns) for each in manifests))
        except InputError as error:
            return PlainTextResponse(str(error), 404)
        files = report_files(runs)
        states = {
            run.page: (look(run), rerun_address(graph, run))
            for run in {run.page: run for run in reversed(runs)}.values()
            if path in ("index.html", run.page, run.latest_report)
        }
        if states and path in files:
            return HTMLResponse(with_state(files[path], *states.items()))
        if states:
            return HTMLResponse(site_pages(runs, states)[path])
        return FileResponse(files[path]) if path in files else Response(status_code=404)

    async def answer(request: Request) -> Response:
        response = await run_in_threadpool(find, request.path_params["path"] or "index.html")
        response.headers.update(PRIVATE_HEADERS)
        return response

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET"])])


def rerun_address(graph: str, run: SiteRun) -> str:
    """Return the page of Dagster on which one click reruns what is out of date in a run's mode."""
    tags = {"tags[0][key]": "dagster/partition", "tags[0][value]": run.mode}
    return f"{graph}/jobs/{run.tournament}_rerun/playground/setup?{urlencode(tags)}"
