import time
from collections.abc import Callable
from typing import Any

import httpx2

from tests.loopback.threaded_servers import LoopbackServer
from tournament_assets.judging.batch_service import BatchStatus, TakesBatches


def user_text(
    response_a: str,
    response_b: str,
    *,
    prompt: str = "Which vitamin is lacking in scurvy?",
    gold: str | None = None,
    expected: str | None = None,
    fence: str = "3f9a1c2e",
) -> str:
    parts = [("prompt", prompt), ("gold_answer", gold), ("expected_behavior", expected)]
    parts += [("response_a", response_a), ("response_b", response_b)]
    return "\n\n".join(
        f'<{name} fence="{fence}">\n{text}\n</{name} fence="{fence}">'
        for name, text in parts
        if text is not None
    )


def judge_params(
    response_a: str = "Vitamin C is lacking.",
    response_b: str = "Vitamin D is lacking.",
    *,
    system: str = "short",
    ttl: str = "1h",
    model: str = "claude-opus-5-5",
) -> Any:
    return {
        "model": model,
        "max_tokens": 1024,
        "system": [
            {"type": "text", "text": system, "cache_control": {"type": "ephemeral", "ttl": ttl}}
        ],
        "messages": [
            {"role": "user", "content": user_text(response_a, response_b, gold="Vitamin C")}
        ],
    }


def batch_body(n: int = 3, **params: Any) -> dict[str, Any]:
    return {
        "requests": [{"custom_id": f"r{i}", "params": judge_params(**params)} for i in range(n)]
    }


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_until_ended(service: TakesBatches, batch_id: str) -> BatchStatus:
    for _ in range(6_000):
        status = service.get_batch(batch_id)
        if status.has_ended:
            return status
        time.sleep(0.01)
    raise AssertionError("the batch never ended")


class Caller:
    """Speaks HTTP to a server with a key, and nothing more."""

    def __init__(self, server: LoopbackServer | str, headers: dict[str, str] | None = None) -> None:
        self._client = httpx2.Client(
            base_url=server if isinstance(server, str) else server.url,
            headers={"x-api-key": "any"} if headers is None else headers,
            trust_env=False,
            timeout=60,
        )

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, **params: Any) -> httpx2.Response:
        return self._client.get(path, params=params)

    def post(self, path: str, body: Any = None) -> httpx2.Response:
        return self._client.post(path, json=body)

    def try_post(self, path: str, body: Any) -> httpx2.Response | None:
        """Return the answer, or None if the connection was closed instead."""
        try:
            return self.post(path, body)
        except httpx2.TransportError:
            return None

    def create(self, n: int = 3, **params: Any) -> str:
        answer = self.post("/v1/messages/batches", batch_body(n, **params))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    def wait(self, batch_id: str) -> dict[str, Any]:
        for _ in range(6_000):
            batch: dict[str, Any] = self.get(f"/v1/messages/batches/{batch_id}").json()
            if batch["processing_status"] == "ended":
                return batch
            time.sleep(0.01)
        raise AssertionError("the batch never ended")
