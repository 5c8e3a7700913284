"""Asking people which response is better: which pairs, in which order, and the page that asks.

A sample is drawn by hashes of the pairs, so that one that is extended begins with the pairs it had,
and so that those who stop early leave a random sample as well. Everything that a rater is shown is
made here, and no entrant's name and no verdict is part of it: a pair is named by a hash, and a vote
says by a hash of the text which response stood first. The page is served to browsers, or written as
one file to send; starlette and uvicorn are imported where they are used.
"""

import hmac
import re
import socket
import threading
from collections import Counter
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tournament_assets.judging.requests.pairs import PairToJudge, split_identical
from tournament_assets.ledger import Ledger
from tournament_assets.ledger.labels import (
    DrawMethod,
    LabelSample,
    LabelVote,
    SampledPair,
    clean_rater,
    pair_identity,
    sample_id_of,
)
from tournament_assets.loopback.running import is_loopback
from tournament_assets.project.existing_work import (
    known_responses,
    load_bank_and_selection,
    pairs_of_dimension,
)
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.project_files import load_rubric
from tournament_assets.ratings.prediction_powered import draw_by_worth
from tournament_assets.reports.battle_pages import script_json
from tournament_assets.reports.rendering import render_page, render_template
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.errors import InputError, LedgerError
from tournament_assets.tournament.fingerprints import fingerprint, fingerprint_text
from tournament_assets.tournament.json_lines import parse_object
from tournament_assets.tournament.judges import Rubric
from tournament_assets.tournament.prompts import CURATED_SOURCE
from tournament_assets.workflows.label_votes import (
    last_votes,
    read_votes,
    said_as_shown,
)

_MAX_BODY_BYTES = 256 * 1024
_MAX_RATERS = 200
_SHORTEST_TOKEN = 12
_COOKIE = "labels"
_HEADERS = {
    "X-Tournament": "labels",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def pairs_to_label(
    plan: TournamentPlan, mode: Mode, dimension: str | None, *, ledger: Ledger
) -> list[PairToJudge]:
    """Return the pairs of a mode whose responses exist, as they are judged on a dimension.

    Raises:
        InputError: If there is no such mode or dimension, the bank or a recorded file cannot be
            used, or there is no pair.
    """
    names = plan.config.dimension_names
    if dimension is not None and dimension not in names:
        raise InputError(f"the dimension is {dimension!r}; expected one of {', '.join(names)}")
    bank, prompts = load_bank_and_selection(plan, mode)
    responses = {
        (entrant.entrant_id, prompt_id): text
        for entrant in plan.config.entrants
        for prompt_id, text in known_responses(plan, entrant, bank, prompts, ledger=ledger).items()
    }
    found: dict[tuple[str, str, str], PairToJudge] = {}
    for each in names if dimension is None else (dimension,):
        for pair in pairs_of_dimension(plan, each, prompts, responses):
            found.setdefault((pair.prompt_id, pair.entrant_a, pair.entrant_b), pair)
    if not found:
        raise InputError(
            f"no prompt of mode {mode!r} has a response of every entrant yet; expected some; run "
            f"tournament run --config {plan.config_path} --mode {mode} --skip-judging first"
        )
    return list(found.values())


def draw_label_sample(
    pairs: Iterable[PairToJudge],
    *,
    tournament_id: str,
    mode: Mode,
    dimension: str | None,
    size: int,
    seed: int = 0,
    overlap: float = 0.2,
    strata: Mapping[tuple[str, str, str], str] | None = None,
    before: LabelSample | None = None,
) -> LabelSample:
    """Draw the pairs that people are asked about, or extend what was drawn before.

    The pairs of a stratum are put in the order of a hash of their names and the seed, and the
    first ones are drawn, as many of each stratum as of any other while they last. So the chance of
    a pair is the drawn share of its stratum, exactly; every beginning of a sample is the sample of
    that size; and pairs whose responses have changed keep their place. Responses of the same text
    are left out.

    Args:
        dimension: The quality that people are asked for; None for which is better in general.
        size: How many pairs; all that there are where they are fewer.
        seed: Seeds the order and the sides.
        overlap: Share of the pairs that every rater is asked about, from 0 to 1.
        strata: The stratum of each pair, by prompt and entrants; None draws from all alike.
        before: The latest draw of the same scope. Nothing of it that is still there is lost,
            whatever the size.

    Raises:
        InputError: If the earlier draw had another seed or other strata.
    """
    different, same = split_identical(pairs)
    by_stratum: dict[str, list[tuple[str, PairToJudge]]] = {}
    for pair in different:
        names = (pair.prompt_id, pair.entrant_a, pair.entrant_b)
        stratum = "" if strata is None else strata.get(names, "not judged")
        by_stratum.setdefault(stratum, []).append((_place(seed, pair), pair))
    for members in by_stratum.values():
        members.sort(key=lambda member: member[0])
    method: DrawMethod = "random" if strata is None else "judge"
    order = list(_in_turn(by_stratum))
    if before is not None:
        size = max(size, _least_size(order, before, seed=seed, method=method))
    drawn = order[:size]
    n_drawn = Counter(stratum for stratum, _ in drawn)
    n_there = {stratum: len(members) for stratum, members in by_stratum.items()}
    return LabelSample(
        sample_id=sample_id_of(tournament_id, mode, dimension),
        draw=1 if before is None else before.draw + 1,
        tournament_id=tournament_id,
        mode=mode,
        dimension=dimension,
        method=method,
        seed=seed,
        frame_size=len(different),
        same_text=len(same),
        overlap=overlap,
        pairs=tuple(
            SampledPair(
                **pair_identity(pair, tournament_id, mode, dimension),
                position=position,
                chance=n_drawn[stratum] / n_there[stratum],
                stratum=stratum,
                shared=int((position + 1) * overlap) > int(position * overlap),
            )
            for position, (stratum, pair) in enumerate(drawn)
        ),
        drawn_at=datetime.now(UTC),
    )


def extend_by_worth(
    pairs: Iterable[PairToJudge],
    before: LabelSample,
    worth: Mapping[tuple[str, str, str], float],
    *,
    n_new: int,
) -> LabelSample:
    """Extend a sample by the pairs whose labels would narrow the intervals most.

    Each pair is drawn with a known chance that goes with the worth of its label, by the place that
    its hash gave it from the first; the chance of a pair that was drawn before is never less than
    it was. The chances are those of all new pairs together, so label all of them.

    Args:
        before: The latest draw.
        worth: What a label of each pair is worth; one that is not there counts as the least.
        n_new: How many more; all that are left where they are fewer.
    """
    different, same = split_identical(pairs)
    known = {(each.prompt_id, each.entrant_a, each.entrant_b): each for each in before.pairs}
    names = [(pair.prompt_id, pair.entrant_a, pair.entrant_b) for pair in different]
    least = min(worth.values(), default=1.0)
    shares = np.array([worth.get(each, least) for each in names])
    drawn = draw_by_worth(
        shares / shares.sum(),
        np.array([int(_place(before.seed, pair)[:13], 16) / 16**13 for pair in different]),
        np.array([known[each].chance if each in known else 0.0 for each in names]),
        n_new,
    )
    earlier = [index for index, each in enumerate(names) if each in known]
    earlier.sort(key=lambda index: known[names[index]].position)
    scope = (before.tournament_id, before.mode, before.dimension)
    return replace(
        before,
        draw=before.draw + 1,
        method="active",
        frame_size=len(different),
        same_text=len(same),
        pairs=tuple(
            SampledPair(
                **pair_identity(different[index], *scope),
                position=position,
                chance=float(drawn.chances[index]),
                stratum=known[names[index]].stratum if names[index] in known else "",
                shared=int((position + 1) * before.overlap) > int(position * before.overlap),
            )
            for position, index in enumerate([*earlier, *drawn.chosen.tolist()])
        ),
        drawn_at=datetime.now(UTC),
    )


def _place(seed: int, pair: PairToJudge) -> str:
    return fingerprint(["draw", seed, pair.prompt_id, *sorted((pair.entrant_a, pair.entrant_b))])


def _in_turn(
    by_stratum: Mapping[str, Sequence[tuple[str, PairToJudge]]],
) -> Iterator[tuple[str, PairToJudge]]:
    """Yield all pairs, one of each stratum after the other as long as they last."""
    longest = max(map(len, by_stratum.values()), default=0)
    for turn in range(longest):
        for stratum in sorted(by_stratum):
            members = by_stratum[stratum]
            if turn < len(members):
                yield stratum, members[turn][1]


def _least_size(
    order: Sequence[tuple[str, PairToJudge]],
    before: LabelSample,
    *,
    seed: int,
    method: DrawMethod,
) -> int:
    """Return how many pairs must be drawn so that none of an earlier draw is lost."""
    if (before.method, before.seed) != (method, seed):
        raise InputError(
            f"the sample was drawn with seed {before.seed}, {_DRAWN[before.method]}, and not with "
            f"seed {seed}, {_DRAWN[method]}; a sample can only be extended as it was drawn, since "
            "no chance would be known otherwise; give the same options"
        )
    names = {(each.prompt_id, each.entrant_a, each.entrant_b): each for each in before.pairs}
    last = -1
    for place, (stratum, pair) in enumerate(order):
        known = names.get((pair.prompt_id, pair.entrant_a, pair.entrant_b))
        if known is not None:
            last = place
            if known.stratum != stratum:
                raise InputError(
                    f"the pair of {known.entrant_a} and {known.entrant_b} on {known.prompt_id!r} "
                    f"was drawn where the judge said {known.stratum!r} and now it says "
                    f"{stratum!r}; expected the same verdicts as when the sample was drawn; label "
                    "what was drawn, without a larger --sample"
                )
    return last + 1


_DRAWN: dict[DrawMethod, str] = {
    "random": "at random",
    "judge": "by the judge's verdicts",
    "active": "where a label is worth most",
    "given": "by another tool",
}


@dataclass(frozen=True)
class LabelDesk:
    """A sample with all that raters are shown of it.

    Attributes:
        sample: The latest draw.
        texts: The pairs whose texts are those of the sample, by `pair_id`.
        rubrics: What raters can read, by dimension.
        shows_gold_answer: Whether they see the gold answer, where there is one.
        shows_expected_behavior: Whether they see the expected behaviour.
    """

    sample: LabelSample
    texts: Mapping[str, PairToJudge]
    rubrics: Mapping[str, Rubric]
    shows_gold_answer: bool = False
    shows_expected_behavior: bool = False

    @classmethod
    def of(
        cls, plan: TournamentPlan, sample: LabelSample, pairs: Iterable[PairToJudge]
    ) -> "LabelDesk":
        """Put a sample beside the texts of today.

        Raises:
            InputError: If a rubric cannot be used.
        """
        drawn = {each.pair_id for each in sample.pairs}
        texts = {}
        for pair in pairs:
            names = pair_identity(pair, sample.tournament_id, sample.mode, sample.dimension)
            if names["pair_id"] in drawn:
                texts[names["pair_id"]] = pair
        config, dimension = plan.config, sample.dimension
        rules = None if dimension is None else config.dimensions[dimension]
        return cls(
            sample=sample,
            texts=texts,
            rubrics={
                name: load_rubric(config, plan.project, name)
                for name in (config.dimension_names if dimension is None else (dimension,))
            },
            shows_gold_answer=rules is not None and rules.shows_gold_answer,
            shows_expected_behavior=rules is not None and rules.shows_expected_behavior,
        )

    @property
    def rubric_hash(self) -> str:
        """SHA-256 of what raters can read of how to judge."""
        return fingerprint({name: rubric.text for name, rubric in self.rubrics.items()})

    def page_values(self, rater: str, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return all that a rater's page shows, as JSON values without a name of an entrant.

        Args:
            rater: Who; decides the sides.
            state: What `rater_state` says.
        """
        dimension = self.sample.dimension
        return {
            "sample": self.sample.sample_id,
            "dimension": None if dimension is None else spoken(dimension),
            "rater": rater,
            "rubrics": [
                {"name": spoken(name), "text": _without_version(rubric.text)}
                for name, rubric in self.rubrics.items()
            ],
            "pairs": {
                pair_id: self._shown(pair_id, pair, rater) for pair_id, pair in self.texts.items()
            },
            **state,
        }

    def _shown(self, pair_id: str, pair: PairToJudge, rater: str) -> dict[str, Any]:
        responses = [pair.response_a, pair.response_b]
        if int(fingerprint(["side", self.sample.seed, pair_id, rater])[:8], 16) % 2:
            responses.reverse()
        behavior = pair.expected_behavior if self.shows_expected_behavior else None
        if pair.source != CURATED_SOURCE and pair.gold_answer is not None:
            behavior = None  # as the judge is shown it
        return {
            "prompt": pair.prompt_text,
            "gold": pair.gold_answer if self.shows_gold_answer else None,
            "expected": behavior,
            "A": responses[0],
            "B": responses[1],
            "first": fingerprint_text(responses[0]),
        }

    def rater_state(
        self, rater: str, votes: Iterable[LabelVote], raters: Collection[str]
    ) -> dict[str, Any]:
        """Return what is left for a rater to do, and what was done.

        Pairs that are not shared are dealt to the raters in turn; one that somebody has labelled
        is nobody else's any more.

        Args:
            rater: Who asks.
            votes: All votes on the sample, in the order in which they came.
            raters: Everybody who takes part, as far as it is known.

        Returns:
            `order`: pairs of the rater's to label, in the order of drawing; `others`: pairs of
            other raters that nobody has labelled; `done`: pairs and what the rater said, as shown,
            in the order in which it was said; `seconds`: the median time of a vote, or None.
        """
        last = last_votes(votes)
        mine = {pair_id: vote for (pair_id, name), vote in last.items() if name == rater}
        taken = {pair_id for pair_id, name in last if name != rater}
        dealt = sorted({*raters, rater, *(name for _, name in last)})
        order: list[str] = []
        others: list[str] = []
        n_single = 0
        for pair in self.sample.pairs:
            is_mine = pair.shared or dealt[n_single % len(dealt)] == rater
            n_single += not pair.shared
            if pair.pair_id in mine or pair.pair_id not in self.texts:
                continue
            if pair.shared or pair.pair_id not in taken:
                (order if is_mine else others).append(pair.pair_id)
        seconds = [vote.seconds for vote in mine.values() if vote.seconds is not None]
        done = sorted(mine.values(), key=lambda vote: vote.given_at)
        return {
            "order": order,
            "others": others,
            "done": [[vote.pair_id, said_as_shown(vote)] for vote in done],
            "seconds": median(seconds) if seconds else None,
        }


def spoken(dimension: str) -> str:
    """Return a dimension's name as a person would say it."""
    return dimension.replace("_", " ")


def _without_version(text: str) -> str:
    """Leave out the lines of a rubric that only programs read."""
    return re.sub(r"\A(?:#[^\n]*\n+)+", "", text)


def require_access(host: str, token: str | None) -> None:
    """Refuse to show pairs to other machines without a token, and tokens that can be guessed.

    Raises:
        InputError: In both cases.
    """
    if not is_loopback(host) and token is None:
        raise InputError(
            f"--host is {host!r}, which other machines can reach; expected a --token beside it, or "
            "a loopback address such as 127.0.0.1"
        )
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii()):
        raise InputError(
            f"the token has {len(token)} characters; expected at least {_SHORTEST_TOKEN}, of "
            "ASCII; python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
        )


def write_label_page(
    path: Path, desk: LabelDesk, rater: str, *, ledger: Ledger, raters: Sequence[str]
) -> int:
    """Write a page that works from disk and hands out its votes as a file.

    Returns:
        How many pairs the rater is asked about.

    Raises:
        InputError: If the file cannot be written.
    """
    state = desk.rater_state(rater, ledger.iterate_votes(desk.sample.sample_id), raters)
    state = {**state, "others": []}
    wanted = {*state["order"], *(pair_id for pair_id, _ in state["done"])}
    values = desk.page_values(rater, state)
    values["pairs"] = {name: pair for name, pair in values["pairs"].items() if name in wanted}
    values["rubric"] = desk.rubric_hash
    try:
        write_bytes_atomically(path, _page(values).encode("utf-8", errors="backslashreplace"))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from error
    return len(state["order"])


def _page(values: Mapping[str, Any] | None) -> str:
    connects = values is None
    return render_page("label.html.jinja", "label", work=script_json(values), connects=connects)


class _Refused(Exception):  # noqa: N818  # an answer, not an error of ours
    def __init__(self, status: int, *problems: str) -> None:
        self.status, self.problems = status, problems


def create_label_app(
    desk: LabelDesk,
    *,
    ledger: Ledger,
    raters: Sequence[str] = (),
    token: str | None = None,
) -> Starlette:
    """Return the application that shows the pairs and keeps the votes.

    `GET /` is the page, `GET /work?rater=NAME` what a rater is to label, `POST /votes` keeps votes
    and answers once they are in the ledger. `GET /worker.js` lets a browser of this machine show
    the page again while the server is away.

    Args:
        desk: The sample and its texts.
        ledger: Where votes are kept.
        raters: Who takes part, as far as it is known; others may join.
        token: What a browser must show; None asks for none, but then answers to a loopback name
            only, so that no other site's page can be made to read or vote.
    """
    page, script = _page(None), render_template("label_worker.js")
    room = _Room(desk, ledger, raters)

    def check(request: Request) -> None:
        if token is None:
            if not is_loopback(request.url.hostname or ""):
                raise _Refused(403, "this page is at 127.0.0.1")
        elif not _is_same(request.cookies.get(_COOKIE, ""), token):
            raise _Refused(403, "open the address with its token, as the command printed it")

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
    async def show(request: Request) -> Response:
        given = request.query_params.get("token")
        if token is not None and given is not None and _is_same(given, token):
            response = RedirectResponse(request.url.remove_query_params("token"), 303)
            response.set_cookie(_COOKIE, token, httponly=True, samesite="strict")
            return response
        check(request)
        return HTMLResponse(page)

    @answering
    async def worker(request: Request) -> Response:
        check(request)
        return Response(script, media_type="text/javascript")

    @answering
    async def work(request: Request) -> Response:
        check(request)
        rater = clean_rater(request.query_params.get("rater"))
        return JSONResponse(await run_in_threadpool(room.enter, rater))

    @answering
    async def votes(request: Request) -> Response:
        check(request)
        if request.headers.get("content-type", "").split(";")[0] != "application/json":
            raise _Refused(415, "expected JSON")
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > _MAX_BODY_BYTES:
                raise _Refused(413, f"expected at most {_MAX_BODY_BYTES} bytes")
        values = parse_object(bytes(content), "votes")
        return JSONResponse(await run_in_threadpool(room.keep, values))

    return Starlette(
        routes=[
            Route("/", show, methods=["GET"]),
            Route("/work", work, methods=["GET"]),
            Route("/worker.js", worker, methods=["GET"]),
            Route("/votes", votes, methods=["POST"]),
        ]
    )


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


class _Room:
    """Who is labelling now, and what they send."""

    def __init__(self, desk: LabelDesk, ledger: Ledger, raters: Sequence[str]) -> None:
        self._desk, self._ledger = desk, ledger
        self._raters = set(raters)
        self._lock = threading.Lock()
        self._pairs = ledger.sampled_pairs(desk.sample.sample_id)

    def enter(self, rater: str) -> dict[str, Any]:
        with self._lock:
            if rater not in self._raters and len(self._raters) >= _MAX_RATERS:
                raise _Refused(429, f"there are {_MAX_RATERS} raters; expected no more")
            self._raters.add(rater)
        return self._desk.page_values(rater, self._state(rater))

    def keep(self, values: Mapping[str, Any]) -> dict[str, Any]:
        desk = self._desk
        if values.get("sample") != desk.sample.sample_id:
            raise _Refused(409, "these votes are of another sample; reload the page")
        rater = clean_rater(values.get("rater"))
        self._ledger.keep_votes(
            read_votes(
                values.get("votes"),
                rater=rater,
                sample_id=desk.sample.sample_id,
                pairs=self._pairs,
                origin="page",
                rubric_hash=desk.rubric_hash,
            )
        )
        return self._state(rater)

    def _state(self, rater: str) -> dict[str, Any]:
        votes = self._ledger.iterate_votes(self._desk.sample.sample_id)
        return self._desk.rater_state(rater, votes, frozenset(self._raters))


def serve_labelling(
    app: Starlette, *, host: str, port: int, on_ready: Callable[[str], None]
) -> None:
    """Serve the page in the foreground until it is interrupted.

    Args:
        app: What `create_label_app` returned.
        host: Where to listen.
        port: 0 takes a free one.
        on_ready: Told the address, without a path, once browsers can connect.

    Raises:
        InputError: If the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise InputError(
                f"cannot listen on {host}, port {port}: {error.strerror}; expected a free port of "
                "this machine; choose another by --port"
            ) from None
        listening.listen()
        named = f"[{host}]" if ":" in host else host
        on_ready(f"http://{named}:{listening.getsockname()[1]}")
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", ws="none"
        )
        uvicorn.Server(config).run(sockets=[listening])
