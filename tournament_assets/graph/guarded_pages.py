"""Dagster's webserver, guarded against requests from other sites' pages.

`dagster-webserver` executes any request, by GET as well, whatever page sent it. Its command line
opens the instance and the definitions, and then calls one function to serve them, which is here.
Should a later version call another, it listens nowhere.

    python -m tournament_assets.graph.guarded_pages HOST PORT WORKSPACE LOCATION [PORT PLACE]...

The pages of extras are served by the same process, each on a port of 127.0.0.1.
"""

import os
import sys
from contextlib import suppress
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


def main(host: str, port: int, workspace: str, location: str, *beside: str) -> None:
    """Serve a workspace on an address until interrupted.

    Args:
        location: The name of the definitions in it.
        beside: Ports, each followed by the function that makes the application served there.
    """
    token = os.environ.pop(TOKEN_VARIABLE, None) or None
    graph = f"{address_of(host, port)}/locations/{quote(location)}"

    def serve(context: Any, *_place: object) -> None:
        app = create_app_from_workspace_process_context(context, live_data_poll_rate=_POLL_MS)
        others = {
            int(number): resolve_name(place)(context.instance, os.environ, graph)
            for number, place in zip(beside[::2], beside[1::2], strict=True)
        }

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            await others.get(scope["server"][1], app)(scope, receive, send)

        config = uvicorn.Config(
            guarded(answer, port=port, token=token),
            http=BoundedProtocol,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        with suppress(KeyboardInterrupt):
            places = [(host, port), *(("127.0.0.1", number) for number in others)]
            uvicorn.Server(config).run(sockets=[listen(*place) for place in places])

    cli.host_dagster_ui_with_workspace_process_context = serve  # type: ignore[assignment]
    options = ("--workspace", workspace, "--host", _NOWHERE, "--dagster-log-level", "warning")
    cli.cli([*options], auto_envvar_prefix="DAGSTER_WEBSERVER")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
