"""A judge's trial: whether its first replies hold verdicts, before the others are paid for."""

from dataclasses import dataclass, field

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import Reply
from tournament_assets.judging.costs.estimates import MOST_AHEAD, ONE_AHEAD_IN
from tournament_assets.judging.requests.verdict_parsing import ReplyFormat, read_reply
from tournament_assets.judging.service_errors import CAUSES, REFUSED
from tournament_assets.judging.settlement.harvest import is_final
from tournament_assets.judging.settlement.sessions import JudgingSession
from tournament_assets.tournament.verdicts import Verdict

FIRST_SLICE = 50
"""The most requests of a trial: so many are lost, at the most, to a judge that cannot be read."""
_ONE_IN = 5
"""More than one silent reply in five fails a trial: judges that work are silent once in twenty."""
_IN_A_ROW = MOST_AHEAD
"""So many verdicts without a failure end a trial early. Of judges that are readable half of the
time, one in a thousand gets so far; asking fifty outside a batch would cost a small run a tenth."""
_MAX_REFUSED = 3
"""So many refusals before the first reply end a trial: a refusal costs nothing, and may be about
one prompt alone."""
_MOST_EXAMPLES = 3
_EXAMPLE_CHARACTERS = 100


@dataclass(slots=True)
class Trial:
    """What the first replies to some requests were like.

    Attributes:
        n_requests: How many requests there are in all.
        reply_format: How the judge writes its verdict; None where a reply is no verdict, and no
            trial fails.
        n_read: Replies that were read, and errors that would come again.
        n_silent: Those of them without a verdict.
        n_refused: Requests that were refused as invalid before there was a reply.
        examples: What some of those without a verdict say, escaped and cut.
    """

    n_requests: int
    reply_format: ReplyFormat | None
    n_read: int = 0
    n_silent: int = 0
    n_refused: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, reply: Reply) -> Verdict | None:
        """Count a reply; return its verdict, or None where it is no reply or no verdict's."""
        if self.reply_format is None:
            return None
        if not is_final(reply):
            if reply.error_type == REFUSED:
                self.n_refused += 1
                self._show(reply)
            return None
        verdict, _ = read_reply(
            result_type=reply.result_type,
            stop_reason=reply.stop_reason,
            text=reply.text,
            reply_format=self.reply_format,
        )
        self.n_read += 1
        if not verdict.is_decided:
            self.n_silent += 1
            self._show(reply)
        return verdict

    def _show(self, reply: Reply) -> None:
        if len(self.examples) == _MOST_EXAMPLES:
            return
        text = reply.text if reply.error_message is None else reply.error_message
        end = (text or "").strip()[-_EXAMPLE_CHARACTERS:]
        why = reply.stop_reason or reply.error_type or reply.result_type
        self.examples.append(f"{end!r} ({why})")

    @property
    def has_failed(self) -> bool:
        """Whether too few of the replies hold a verdict, whatever the rest of a slice says."""
        return _ONE_IN * self.n_silent > max(self.n_read, FIRST_SLICE)

    @property
    def is_open(self) -> bool:
        """Whether it takes more replies to know."""
        return (
            self.reply_format is not None
            and not self.has_failed
            and self.n_read < FIRST_SLICE
            and (self.n_silent > 0 or self.n_read < self._needed)
        )

    @property
    def _needed(self) -> int:
        return min(_IN_A_ROW, -(-self.n_requests // ONE_AHEAD_IN))

    @property
    def n_next(self) -> int:
        """How many to ask before looking again."""
        if self.n_refused and not self.n_read:
            return max(1, _MAX_REFUSED - self.n_refused)
        return _IN_A_ROW if self.n_silent else max(1, self._needed - self.n_read)

    def is_over(self, *, n_unasked: int) -> bool:
        """Whether so few requests are unasked after a failed trial that they go out all the same.

        They cost no more than what is paid already, or than a trial may.
        """
        return self.has_failed and n_unasked <= max(self.n_read, FIRST_SLICE)

    def check(self, session: JudgingSession, model: str) -> None:
        """Refuse to send the other requests after a failed trial.

        Raises:
            JudgeError: If the judge cannot be read, or refuses every request.
        """
        examples = ", ".join(self.examples)
        if not self.n_read and self.n_refused >= min(_MAX_REFUSED, self.n_requests):
            schema = (
                f"if it knows no JSON schema, {CAUSES['schema refused'].action}; "
                if self.reply_format == "json_schema"
                else ""
            )
            raise JudgeError(
                f"the service refused the first {self.n_refused} requests to {model} as "
                f"invalid: {examples}; nothing more is sent; {schema}{session.terms.remedy}",
                failure=JudgeFailure.INVALID,
            )
        if self.has_failed:
            raise JudgeError(
                f"of {self.n_read} replies of {model} so far, {self.n_silent} hold no "
                f"verdict, such as {examples}; expected one in {_ONE_IN} at the most; nothing more "
                "is sent, and the replies are kept; correct the rubric, the judge or its "
                "max_tokens, name another judge, or ask the silent ones once more with "
                "`tournament rejudge`"
            )
