"""Dagster's webserver, guarded against requests from other sites' pages.

`dagster-webserver` executes any request, by GET as well, whatever page sent it. Its command line
opens the instance and the definitions, and then calls one function to serve them, which is here.
Should a later version call another, it listens nowhere.

    python -m tournament_assets.graph.guarded_pages HOST PORT WORKSPACE [PORT APPLICATION]...

What extras add is served by the same process, on ports of 127.0.0.1.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from urllib.parse import quote

import uvicorn
from dagster_webserver import cli
from dagster_webserver.app import create_app_from_workspace_process_context

from tournament_assets.loopback.bounded_protocol import BoundedProtocol
from tournament_assets.serving.ui_server import TOKEN_VARIABLE
from tournament_assets.serving.web_access import AsgiApplication, GuardedApp, address_of, listen

_NOWHERE = "nowhere.invalid"
"""A host that exists on no machine, see RFC 2606."""
_NO_PAGES = ("graphql", "logs", "notebook", "dagit", "download_debug")
_GRACE_SECONDS = 2
_POLL_MS = 2000
"""How often a page looks for what has changed, as under `dagster dev`."""


def guarded(app: AsgiApplication, *, port: int, token: str | None) -> GuardedApp:
    """Return Dagster's application for the pages of one address.

    Args:
        port: Where it is served; browsers share cookies between the ports of a machine.
        token: The secret without which nothing is answered; None requires none.
    """
    cookie = f"tournament_ui_{port}"
    return GuardedApp(app, cookie, token, closed=_NO_PAGES, takes_query_in_body="/graphql")


def by_port(applications: Mapping[int, AsgiApplication]) -> AsgiApplication:
    """Return an application that answers on each port by another."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await applications[scope["server"][1]](scope, receive, send)

    return answer


def main(host: str, port: int, workspace: str, *beside: str) -> None:
    """Serve a workspace on an address until interrupted.

    Args:
        beside: Ports, each with the place of the function that makes the application served there
            from Dagster's instance, the environment and the address of the pages of definitions.
    """
    token = os.environ.pop(TOKEN_VARIABLE, None) or None
    (location,) = json.loads(Path(workspace).read_text("utf-8"))["load_from"][0].values()
    graph = f"{address_of(host, port)}/locations/{quote(location['location_name'])}"

    def serve(context: Any, *_place: object) -> None:
        app = create_app_from_workspace_process_context(context, live_data_poll_rate=_POLL_MS)
        applications = {port: app} | {
            int(number): resolve_name(place)(context.instance, os.environ, graph)
            for number, place in zip(beside[::2], beside[1::2], strict=True)
        }
        config = uvicorn.Config(
            guarded(by_port(applications), port=port, token=token),
            http=BoundedProtocol,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        with suppress(KeyboardInterrupt):
            others = [listen("127.0.0.1", number) for number in applications if number != port]
            uvicorn.Server(config).run(sockets=[listen(host, port), *others])

    cli.host_dagster_ui_with_workspace_process_context = serve  # type: ignore[assignment]
    options = ("--workspace", workspace, "--host", _NOWHERE, "--dagster-log-level", "warning")
    cli.cli([*options], auto_envvar_prefix="DAGSTER_WEBSERVER")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
