"""Requests that the loopback judge does not accept, and what it answers to them."""

import json
import uuid
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response


class Refusal(Exception):  # noqa: N818 - it is an answer, not a failure of the server
    """An answer other than 200.

    Attributes:
        status: The HTTP status.
        kind: The kind of error, such as `invalid_request_error`.
        message: What is wrong.
    """

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


def invalid(message: str) -> Refusal:
    """Return the refusal of a request that says something wrong."""
    return Refusal(400, "invalid_request_error", message)


def check_key(request: Request) -> None:
    """Refuse a request that carries no key; any key will do."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.casefold() == "bearer" else ""
    if not bearer and not request.headers.get("x-api-key", "").strip():
        raise Refusal(401, "authentication_error", "x-api-key header is required")


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request's body, or refuse the request."""
    try:
        body = json.loads(await request.body())
    except ValueError:
        raise invalid("The request body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise invalid("The request body is not a JSON object.")
    return body


def read_limit(request: Request) -> int:
    """Return how many rows a page may hold."""
    given = request.query_params.get("limit", "20")
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= 1000:
        raise invalid("limit: expected a number from 1 to 1000")
    return int(given)


def answer_refusal(_request: Request, refusal: Exception) -> Response:
    """Put a refusal in the API's shape."""
    if not isinstance(refusal, Refusal):
        raise refusal
    request_id = new_request_id()
    return JSONResponse(
        {
            "type": "error",
            "error": {"type": refusal.kind, "message": refusal.message},
            "request_id": request_id,
        },
        status_code=refusal.status,
        headers={"request-id": request_id},
    )


def answer_http_exception(request: Request, error: Exception) -> Response:
    """Put what the router refuses, such as an unknown path, in the API's shape."""
    if not isinstance(error, HTTPException):
        raise error
    kind = "not_found_error" if error.status_code == 404 else "invalid_request_error"
    return answer_refusal(request, Refusal(error.status_code, kind, error.detail))


def new_request_id() -> str:
    """Return an id for one answer."""
    return f"req_{uuid.uuid4().hex[:24]}"
