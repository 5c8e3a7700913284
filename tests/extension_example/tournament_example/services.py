"""A judge that repeats what it is asked, and then prefers the longer half of it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tournament_assets import extension
from tournament_assets.extension import JudgeService, ServiceConnection

_BATCHES: dict[str, list["extension.SubmittedRequest"]] = {}


class EchoService:
    """Answers at once. The first batch of a process is accepted without being confirmed."""

    def create_batch(
        self, requests: Iterable["extension.SubmittedRequest"]
    ) -> "extension.BatchStatus":
        """Accept a batch; lose the answer to the first."""
        batch_id = f"echo-{len(_BATCHES)}"
        _BATCHES[batch_id] = list(requests)
        if len(_BATCHES) == 1:
            failure = extension.JudgeFailure.AMBIGUOUS
            raise extension.JudgeError("the answer to a batch was lost", failure=failure)
        return self.get_batch(batch_id)

    def list_batches(self) -> Iterator["extension.BatchStatus"]:
        """Yield every batch, the newest first."""
        yield from map(self.get_batch, reversed(_BATCHES))

    def get_batch(self, batch_id: str) -> "extension.BatchStatus":
        """Every batch has ended."""
        return extension.BatchStatus(batch_id, True, len(_BATCHES[batch_id]))

    def iterate_results(self, batch_id: str) -> Iterator["extension.ReplyRow"]:
        """Yield the replies."""
        yield from map(self.ask_directly, _BATCHES[batch_id])

    def ask_directly(self, request: "extension.SubmittedRequest") -> "extension.ReplyRow":
        """Repeat the end of the request."""
        text = request.params["messages"][-1]["content"]
        half = len(text) // 2
        words = [len(part.split()) for part in (text[:half], text[half:])]
        return extension.ReplyRow(
            custom_id=request.custom_id,
            result_type="succeeded",
            text=f"{text[-40:]} is longer.\nVERDICT: {'A' if words[0] > words[1] else 'B'}",
            stop_reason="end_turn",
            model=request.params["model"],
            usage=extension.TokenUsage(input_tokens=sum(words), output_tokens=12),
        )

    def check_model(self, model: str) -> str | None:
        """Know every model."""


@contextmanager
def open_echo(_: ServiceConnection) -> Iterator[EchoService]:
    """Open the service."""
    yield EchoService()


ROWS = (
    JudgeService(
        name="echo",
        label="an echo",
        opener=f"{__name__}:open_echo",
        source="from an echo",
        model_prefix="echo-",
        is_language_model=False,
        grace_seconds=0.1,
    ),
)
