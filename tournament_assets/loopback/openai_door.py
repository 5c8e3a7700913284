"""A second door to the loopback judge, at which OpenAI's protocol is spoken.

What comes in is put into the words of the Messages API and handed to the judge behind it, faults
and all, and what that answers is put back. So both protocols have one judge, one log and one
catalogue of faults.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tournament_assets.loopback.submissions import Refusal, answer_refusal, invalid, read_object

_CHAT = "/v1/chat/completions"
_MESSAGES = "/v1/messages"
_MODELS = "/v1/models"
_DEFAULT_CAP = 4096
_FINISH_REASONS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "refusal": "content_filter",
    "tool_use": "tool_calls",
}


def read_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat completion's parameters in the words of the Messages API.

    Raises:
        Refusal: If they make no sense as a chat.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(each, Mapping) for each in messages):
        raise invalid("messages: expected a list of messages")
    system = [each for each in messages if each.get("role") in ("system", "developer")]
    params = {
        "model": body.get("model"),
        "max_tokens": body.get("max_completion_tokens", body.get("max_tokens", _DEFAULT_CAP)),
        "messages": [each for each in messages if each not in system],
    }
    if system:
        text = "\n\n".join(str(each.get("content", "")) for each in system)
        params["system"] = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
    wanted = body.get("response_format")
    if isinstance(wanted, Mapping) and wanted.get("type") == "json_schema":
        schema = (wanted.get("json_schema") or {}).get("schema")
        params["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if body.get("stream"):
        params["stream"] = True
    return params


def write_completion(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of the Messages API as a chat completion."""
    blocks = message["content"]
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    thoughts = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    reason = message["stop_reason"]
    said: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if thoughts:
        said["reasoning_content"] = thoughts
    usage = message["usage"]
    cached, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    read = usage["input_tokens"] + cached + written
    return {
        "id": f"chatcmpl-{message['id']}",
        "object": "chat.completion",
        "created": 0,
        "model": message["model"],
        "choices": [
            {
                "index": 0,
                "message": said,
                "finish_reason": _FINISH_REASONS.get(reason, reason),
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": usage["output_tokens"],
            "total_tokens": read + usage["output_tokens"],
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


class OpenAiDoor:
    """Lets both protocols in.

    Args:
        app: The judge, which speaks the Messages API.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request in the protocol in which it came."""
        answer = self._find_answer(scope)
        if answer is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await answer(request)
        except (Refusal, HTTPException) as error:
            response = answer_refusal(request, error)
        if response is not None:
            await response(scope, receive, send)

    def _find_answer(self, scope: Scope) -> "Callable[[Request], Any] | None":
        method, path = scope.get("method"), scope.get("path", "")
        if method == "POST" and path == _CHAT:
            return self._complete
        return self._show_model if path.startswith(f"{_MODELS}/") else None

    async def _complete(self, request: Request) -> Response | None:
        params = read_chat(await read_object(request))
        return await self._ask(request, "POST", _MESSAGES, params, write=write_completion)

    async def _show_model(self, request: Request) -> Response | None:
        return await self._ask(request, "GET", request.url.path, write=dict)

    async def _ask(
        self,
        request: Request,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        write: Callable[[dict[str, Any]], Mapping[str, Any]],
        query: str = "",
        **more: Any,
    ) -> Response | None:
        """Ask the judge behind the door; None if it closed the connection instead of answering.

        Args:
            request: What came in.
            method: The method of what is asked.
            path: Its path.
            body: Its body.
            write: Puts an answer that is no refusal into this protocol.
            query: Its query string.
            more: What else the judge finds in the scope.
        """
        sent = b"" if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8")
        headers = [(name, value) for name, value in request.scope["headers"] if name in _PASSED]
        if not any(name == b"authorization" for name, _ in headers):
            # Many servers of this protocol want no key.
            headers.append((b"x-api-key", b"none"))
        scope = {
            **request.scope,
            **more,
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
        }
        is_read = False

        async def receive() -> Message:
            nonlocal is_read
            if is_read:
                return await request.receive()
            is_read = True
            return {"type": "http.request", "body": sent, "more_body": False}

        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, keep)
        if not messages:
            return None
        start, *rest = messages
        content = b"".join(each.get("body", b"") for each in rest)
        shown = {
            name.decode(): value.decode()
            for name, value in start["headers"]
            if name in (b"retry-after", b"location", b"content-type")
        }
        status = start["status"]
        if "json" not in shown.pop("content-type", ""):
            return Response(content, status, shown, media_type="text/html")
        value = json.loads(content)
        return JSONResponse(write(value) if status == 200 else _write_error(value), status, shown)


_PASSED = (b"host", b"authorization", b"x-api-key")


def _write_error(value: Mapping[str, Any]) -> dict[str, Any]:
    """Put a refusal into OpenAI's words."""
    error = value["error"]
    details = error.get("details") or {}
    is_spent = details.get("error_code") == "enforced_spend_limit_reached"
    code = "insufficient_quota" if is_spent else None
    return {
        "error": {"message": error["message"], "type": error["type"], "param": None, "code": code}
    }
