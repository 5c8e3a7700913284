"""Generation by a server, response by response through the ledger."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from tournament_assets.adapters.openai_access import read_access
from tournament_assets.adapters.progress import GenerationProgress
from tournament_assets.assets.local_generator import CompletedResponses
from tournament_assets.tournament.api_entrants import OpenAiApiEntrant
from tournament_assets.tournament.errors import InputError, ServerError
from tournament_assets.tournament.prompts import Prompt

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger


def server_problems(entrant: OpenAiApiEntrant, *, environment: Mapping[str, str]) -> Sequence[str]:
    """Say what keeps a server from being asked: no address, no key, nobody there."""
    from tournament_assets.adapters.openai import OpenAiServer

    try:
        access = read_access(entrant, environment)
        with closing(OpenAiServer(entrant, access)) as server:
            server.look_around()
    except InputError as error:
        return error.problems
    except ServerError as error:
        return [f"entrant {entrant.entrant_id!r}: {error}"]
    return ()


def complete_by_server(
    entrant: OpenAiApiEntrant,
    *,
    environment: Mapping[str, str],
    prompts: Sequence[Prompt],
    ledger: "Ledger",
    log: Callable[[str], None],
) -> CompletedResponses:
    """Take what the ledger holds, ask the server for the rest, and keep each response as it comes.

    The server, and the variables that lead to it, are needed only if something is missing.

    Args:
        entrant: The model, its decoding settings and its server.
        environment: Where the server's address and key may be.
        prompts: What to answer.
        ledger: Where responses are kept.
        log: Told what is happening.

    Raises:
        InputError: If the environment does not say where the server is.
        GenerationError: If the server cannot answer; what it answered is kept.
    """
    identity = entrant.fingerprint(entrant.content_hash)
    by_fingerprint = {prompt.fingerprint: prompt for prompt in prompts}
    kept = ledger.responses(identity, by_fingerprint)
    missing = [prompt for key, prompt in by_fingerprint.items() if key not in kept]
    n_kept = len(kept)
    reasons: dict[str, str] = {}
    source = "nothing was generated: the ledger held every response"
    if missing:
        source, reasons = _ask(
            entrant, identity, environment, missing, ledger, log, has_answered=bool(kept)
        )
        kept = ledger.responses(identity, by_fingerprint)
    return CompletedResponses(
        responses=[kept[key] for key in by_fingerprint if key in kept],
        generated=len(kept) - n_kept,
        device=source,
        reasons=reasons,
    )


def _ask(
    entrant: OpenAiApiEntrant,
    identity: str,
    environment: Mapping[str, str],
    missing: Sequence[Prompt],
    ledger: "Ledger",
    log: Callable[[str], None],
    *,
    has_answered: bool,
) -> tuple[str, dict[str, str]]:
    """Return where the responses came from, and why some did not, by prompt id."""
    from tournament_assets.adapters.openai import OpenAiServer
    from tournament_assets.generation.asking import ask_server

    access = read_access(entrant, environment)
    reasons: dict[str, str] = {}
    with (
        closing(OpenAiServer(entrant, access)) as server,
        GenerationProgress(entrant.entrant_id, total=len(missing), log=log) as progress,
    ):
        log(f"{entrant.entrant_id}: {server.look_around()}")
        outcomes = ask_server(
            server,
            missing,
            max_concurrency=entrant.max_concurrency,
            max_retries=entrant.max_retries,
            has_answered=has_answered,
            log=log,
        )
        with closing(outcomes):
            for outcome in outcomes:
                n_tokens = 0
                if outcome.response is not None:
                    ledger.keep_responses(
                        identity, [(outcome.prompt.fingerprint, outcome.response)]
                    )
                    n_tokens = outcome.response.response_tokens or 0
                else:
                    reasons[outcome.prompt.prompt_id] = str(outcome.error)
                progress.advance(1, tokens=n_tokens)
    return f"{entrant.model} behind {access.origin}", reasons
