"""The labelling server: shows pairs, and acknowledges a vote once it is in the ledger."""

import hmac
import re
from collections.abc import (
    Awaitable,
    Callable,
    Sequence,
)

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from tournament_assets.extras.people.label_records import (
    LabelRecords,
    LabelVote,
    clean_rater,
    compared,
)
from tournament_assets.extras.people.labelling.page import LabelDesk, label_page
from tournament_assets.extras.people.votes import (
    read_votes,
)
from tournament_assets.foundation.errors import InputError, LedgerError
from tournament_assets.foundation.fingerprints import fingerprint_text
from tournament_assets.foundation.json_lines import JsonObject, parse_object
from tournament_assets.loopback.bounded_protocol import BoundedProtocol
from tournament_assets.reports.rendering import render_template
from tournament_assets.serving.web_access import PRIVATE_HEADERS, GuardedApp, address_of, listen

_MAX_BODY_BYTES = 256 * 1024
_MAX_RATERS = 200
_KEY_LENGTH = 32
_KEY = re.compile(f"[0-9a-f]{{{_KEY_LENGTH}}}")
TOKEN_VARIABLE = "TOURNAMENT_LABEL_TOKEN"  # noqa: S105  # a variable's name
"""The environment variable with the secret that an address must contain."""
_HEADERS = {"X-Tournament": "labels", **PRIVATE_HEADERS}


class _Refused(Exception):  # noqa: N818  # an answer, not an error of ours
    def __init__(self, status: int, *problems: str) -> None:
        self.status, self.problems = status, problems


def create_label_app(
    desk: LabelDesk,
    *,
    ledger: LabelRecords,
    raters: Sequence[str] = (),
    token: str | None = None,
) -> GuardedApp:
    """Return the application that shows the pairs and stores the votes.

    `GET /` is the page, `GET /work?rater=NAME&key=KEY` what a rater has to label; `POST /votes`
    stores votes and answers once they are in the ledger. The first vote of somebody who joins
    stores the key with it, without which the name then reads and votes no more. `GET /worker.js`
    lets a browser on this machine show the page again while the server is down.

    Args:
        ledger: Where votes are stored.
        raters: Who is known to take part, each with the key of `rater_key`; others may join.
        token: The secret a browser must send. None requires no secret, but only answers requests
            for a loopback name, so that no other site's page can read or vote.
    """
    page, script = label_page(None), render_template("people/templates/label_worker.js")
    room = _Room(desk, ledger, raters)

    def answering(
        answer: Callable[[Request], Awaitable[Response]],
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            try:
                response = await answer(request)
            except _Refused as refused:
                response = JSONResponse({"problems": refused.problems}, refused.status)
            except InputError as error:
                response = JSONResponse({"problems": error.problems}, 400)
            except LedgerError as error:
                response = JSONResponse({"problems": [str(error)]}, 503)
            response.headers.update(_HEADERS)
            return response

        return answered

    @answering
    async def show(_request: Request) -> Response:
        return HTMLResponse(page)

    @answering
    async def worker(_request: Request) -> Response:
        return Response(script, media_type="text/javascript")

    @answering
    async def work(request: Request) -> Response:
        rater = clean_rater(request.query_params.get("rater"))
        key = request.query_params.get("key", "")
        return JSONResponse(await run_in_threadpool(room.enter, rater, key))

    @answering
    async def votes(request: Request) -> Response:
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > _MAX_BODY_BYTES:
                raise _Refused(413, f"expected at most {_MAX_BODY_BYTES} bytes")
        values = parse_object(bytes(content), "votes")
        return JSONResponse(await run_in_threadpool(room.keep, values))

    app = Starlette(
        routes=[
            Route("/", show, methods=["GET"]),
            Route("/work", work, methods=["GET"]),
            Route("/worker.js", worker, methods=["GET"]),
            Route("/votes", votes, methods=["POST"]),
        ]
    )
    return GuardedApp(app, "labels", token, closed=("work", "worker.js", "votes"))


def rater_key(desk: LabelDesk, rater: str) -> str:
    """Return the secret in the address that is printed for a rater."""
    name = compared(rater).encode()
    return hmac.new(desk.salt.encode(), name, "sha256").hexdigest()[:_KEY_LENGTH]


class _Room:
    """Who is labelling, and the votes they send."""

    def __init__(self, desk: LabelDesk, ledger: LabelRecords, raters: Sequence[str]) -> None:
        self._desk, self._ledger = desk, ledger
        self._listed = {compared(name): name for name in raters}
        self._pairs = ledger.sampled_pairs(desk.sample.sample_id)

    def enter(self, name: str, key: str) -> JsonObject:
        votes = self._votes()
        rater, _ = self._admit(name, key, votes)
        return self._desk.page_values(rater, self._state(rater, votes))

    def keep(self, values: JsonObject) -> JsonObject:
        desk = self._desk
        if values.get("sample") != desk.sample.sample_id:
            raise _Refused(409, "these votes are of another sample; reload the page")
        name, key = clean_rater(values.get("rater")), str(values.get("key", ""))
        rater, joins = self._admit(name, key, self._votes())
        votes = read_votes(
            values.get("votes"),
            rater=rater,
            sample_id=desk.sample.sample_id,
            pairs=self._pairs,
            origin="page",
            rubric_hash=desk.rubric_hash,
        )
        if joins and votes:
            self._enrol(rater, key)
        self._ledger.keep_votes(votes)
        return self._state(rater, self._votes())

    def _admit(self, name: str, key: str, votes: Sequence[LabelVote]) -> tuple[str, bool]:
        """Return how a rater is spelled, and whether the next vote is the first; or refuse."""
        known = self._listed | {compared(vote.rater): vote.rater for vote in votes}
        rater = known.get(compared(name), name)
        digest = self._ledger.label_secrets(self._desk.sample.sample_id).get(compared(name))
        theirs = (fingerprint_text(rater_key(self._desk, name)), digest or "")
        if any(hmac.compare_digest(fingerprint_text(key), each) for each in theirs):
            return rater, False
        if digest is not None or compared(name) in known:
            raise _Refused(
                403,
                f"the name {rater!r} is somebody's, and the key of the address is not theirs; "
                "expected the address printed for them; tournament label --rater prints it",
            )
        return rater, True

    def _enrol(self, rater: str, key: str) -> None:
        if not _KEY.fullmatch(key):
            raise _Refused(403, f"the key is missing; expected {_KEY_LENGTH} hexadecimal digits")
        sample_id = self._desk.sample.sample_id
        if len(self._ledger.label_secrets(sample_id)) > _MAX_RATERS:
            raise _Refused(429, f"{_MAX_RATERS} raters have joined; expected no more")
        stored = self._ledger.keep_label_secret(sample_id, compared(rater), fingerprint_text(key))
        if stored != fingerprint_text(key):
            raise _Refused(403, f"another {rater!r} has joined just now; choose another name")

    def _votes(self) -> tuple[LabelVote, ...]:
        return tuple(self._ledger.iterate_votes(self._desk.sample.sample_id))

    def _state(self, rater: str, votes: Sequence[LabelVote]) -> JsonObject:
        return self._desk.rater_state(rater, votes, self._listed.values())


def serve_labelling(
    app: GuardedApp, *, host: str, port: int, on_ready: Callable[[str], None]
) -> None:
    """Serve the page in the foreground until interrupted.

    Args:
        app: What `create_label_app` returned.
        port: 0 takes a free one.
        on_ready: Called with the address, without a path, once browsers can connect.
    """
    with listen(host, port) as listening:
        on_ready(address_of(host, listening.getsockname()[1]))
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
        )
        uvicorn.Server(config).run(sockets=[listening])
