"""Rounds of decoding: draft, verify by the jury, keep.

A round reads and writes tensors in place, has shapes that follow from the settings alone, and never
waits for the device, so it can be recorded and replayed (see `decoding`). Its results are stored on
the device and read once for each row, at its end; another prompt may then take the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from tournament_assets.foundation.errors import GenerationError
from tournament_assets.generation.hydra.decoded import (
    DecodingMode,
    DecodingSettings,
    Progress,
    VerifiedToken,
)
from tournament_assets.generation.hydra.drafts import Drafter
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.product_of_experts import (
    accept_drafts,
    draw,
    entropies,
    jury_probabilities,
    overlaps,
    suppressions,
    surplus,
)


@dataclass(frozen=True, slots=True, eq=False)
class VerifiedRound:
    """The verdicts of one round.

    Attributes:
        drafts: The drafted tokens, shape (n_prompts,).
        tokens: The drafts or their replacements, the same shape.
        accepted: Whether the draft is kept, the same shape.
        entropies: Entropy of the verifiers' product, in nats, the same shape.
        overlaps: Probability that a draft is accepted, the same shape.
        suppressions: Probability that this draft is rejected, the same shape.
        votes: Each head's most probable token, shape (n_prompts, n_heads).
    """

    drafts: Tensor
    tokens: Tensor
    accepted: Tensor
    entropies: Tensor
    overlaps: Tensor
    suppressions: Tensor
    votes: Tensor

    @classmethod
    def zeros(cls, *shape: int, n_heads: int, device: torch.device) -> "VerifiedRound":
        """Make room for verdicts; `shape` replaces the shape of the drafts."""

        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        return cls(
            drafts=zeros(*shape, dtype=torch.long),
            tokens=zeros(*shape, dtype=torch.long),
            accepted=zeros(*shape, dtype=torch.bool),
            entropies=zeros(*shape, dtype=torch.float64),
            overlaps=zeros(*shape, dtype=torch.float64),
            suppressions=zeros(*shape, dtype=torch.float64),
            votes=zeros(*shape, n_heads, dtype=torch.long),
        )

    @property
    def columns(self) -> tuple[Tensor, ...]:
        """All attributes, in order."""
        return tuple(getattr(self, each.name) for each in fields(self))

    def read(self, is_kept: Tensor) -> list[VerifiedToken]:
        """Return the verdicts on kept tokens, prompt by prompt.

        Args:
            is_kept: True where a token is kept, shape (n_positions, n_prompts).
        """
        by_prompt = is_kept.transpose(0, 1)
        columns = [column.transpose(0, 1)[by_prompt].tolist() for column in self.columns]
        return [
            VerifiedToken(draft, token, not accepted, entropy, overlap, suppression, tuple(votes))
            for draft, token, accepted, entropy, overlap, suppression, votes in zip(
                *columns, strict=True
            )
        ]


def verify(
    drafts: Tensor,
    q: Tensor,
    *,
    verifiers: Tensor,
    votes: Tensor,
    beta: float,
    temperature: float | None,
    uniforms: Tensor,
) -> VerifiedRound:
    """Let the jury accept or replace drafts.

    Args:
        drafts: Token ids, shape (n_prompts,).
        q: The distributions they were drawn from, shape (n_prompts, n_tokens).
        verifiers: Sum of the verifiers' logits, the same shape.
        votes: Each head's most probable token, shape (n_prompts, n_heads).
        beta: Weight of each verifier.
        temperature: Sampling temperature; None decodes greedily.
        uniforms: Random numbers for accepting and for replacing, shape (n_prompts, 2).

    Returns:
        The verdict; its entropies are NaN where the logits are not numbers.
    """
    p = jury_probabilities(verifiers, beta=beta, temperature=temperature)
    excess = surplus(p, q)
    shared = overlaps(excess)
    # Where nothing can replace a draft, it is kept: P equals q but for rounding.
    accepted = accept_drafts(p, q, drafts=drafts, uniforms=uniforms[..., 0]) | (shared == 1)
    return VerifiedRound(
        drafts=drafts,
        tokens=torch.where(accepted, drafts, draw(excess, uniforms[..., 1])),
        accepted=accepted,
        entropies=entropies(p),
        overlaps=shared,
        suppressions=suppressions(p, q, drafts=drafts),
        votes=votes,
    )


Written = tuple[tuple[int, ...], tuple[VerifiedToken, ...] | None]
"""The token ids of one response, and a jury's verdicts on them; None without a jury."""


_STEP = 32
_STEP_ON_CUDA = 256
"""Attention looks at multiples of this many slots; a GPU records each multiple once."""


def round_up(n_slots: int, *, device: torch.device) -> int:
    """Return the number of slots, at least this many, that attention looks at on a device."""
    step = _STEP_ON_CUDA if device.type == "cuda" else _STEP
    return -(-n_slots // step) * step


class Rounds:
    """A batch that is being decoded.

    Args:
        drafter: One that has read the prompts.
        progress: Progress at the last token of each prompt.
        numbers: Random numbers of each row and position, shape (n_rows, n_positions, 3), or 1
            without a jury.
        prompt_length: Tokens that prompts are padded to.

    Attributes:
        heads: The drawn head of each row, shape (n_rows,).
        witnesses: The speaking heads' input to the final norm in the first round,
            shape (n_rows, hidden_size).
    """

    def __init__(
        self,
        model: HydraModel,
        drafter: Drafter,
        settings: DecodingSettings,
        *,
        progress: Progress,
        heads: Tensor,
        numbers: Tensor,
        prompt_length: int,
    ) -> None:
        self.heads = heads.clone()
        self._drafter = drafter
        self._settings = settings
        self._progress = progress
        self._numbers = numbers
        self._prompt_length = prompt_length
        device = model.device
        n_rows, n_positions, _ = numbers.shape
        # The last place takes what is written after the end of a response.
        shape = (n_positions + 1, n_rows)
        self._broken = torch.zeros((), dtype=torch.bool, device=device)
        self._verdicts = None
        if settings.mode is DecodingMode.FULL_POE:
            self._verdicts = VerifiedRound.zeros(*shape, n_heads=model.n_heads, device=device)
            self._tokens = self._verdicts.tokens
        else:
            self._tokens = torch.zeros(shape, dtype=torch.long, device=device)
        self.witnesses = torch.zeros(
            (n_rows, model.shape.hidden_size), dtype=model.dtype, device=device
        )

    def admit(
        self,
        rows: Tensor,
        ids: Tensor,
        progress: Progress,
        heads: Tensor,
        numbers: Tensor,
        *,
        prompt_length: int | None = None,
    ) -> None:
        """Begin other prompts in the memory of some rows, where recorded rounds find them.

        Args:
            rows: Which rows, shape (n_new,); the responses before are lost.
            ids: The prompts, padded on the right, shape (n_new, n_tokens).
            progress: As when it was made, but of the new rows alone, and the other arguments too.
            prompt_length: The full length from now on; as before unless given.
        """
        self._prompt_length = prompt_length or self._prompt_length
        self.heads[rows] = heads
        self._drafter.admit(rows, ids, self.heads)
        self._progress.take(rows, progress)
        self._numbers[rows] = numbers
        self.witnesses[rows] = 0

    def n_slots(self, number: int) -> int:
        """Return how many slots a round looks at, so many rounds after prompts of full length.

        It depends on no row's end, because a response's bits may depend on the number of slots.
        """
        return round_up(self._prompt_length + number, device=self._numbers.device)

    def play(self, n_slots: int) -> None:
        """Play one round; nothing in it waits for the device.

        Args:
            n_slots: Slots that attention looks at, enough for all tokens of this round.
        """
        settings, progress = self._settings, self._progress
        uniforms = self._next_numbers()
        last = self._numbers.shape[1]
        places = torch.where(progress.is_open, progress.n_written, last)  # (n_rows,)
        drafts = self._drafter.draft(
            progress.tokens, progress.positions, uniforms[..., 0], n_slots=n_slots
        )
        is_first = (progress.n_written == 0)[:, None]
        self.witnesses.copy_(torch.where(is_first, drafts.witnesses, self.witnesses))
        self._broken |= drafts.q[..., 0].isnan().any()  # NaN everywhere or nowhere
        if drafts.jury is None or self._verdicts is None:
            tokens = drafts.tokens
            _write(self._tokens, tokens, places)
        else:
            verdict = verify(
                drafts.tokens,
                drafts.q,
                verifiers=drafts.jury.verifiers,
                votes=drafts.jury.votes,
                beta=settings.beta,
                temperature=settings.temperature,
                uniforms=uniforms[..., 1:],
            )
            tokens = verdict.tokens
            self._broken |= verdict.entropies.isnan().any()
            for column, new in zip(self._verdicts.columns, verdict.columns, strict=True):
                _write(column, new, places)
        progress.keep(tokens)

    def open_rows(self) -> list[bool]:
        """Wait for the device, and return whether each response may still grow."""
        *are_open, is_broken = torch.cat((self._progress.is_open, self._broken[None])).tolist()
        if is_broken:
            raise GenerationError(
                "the model's logits hold NaN or infinity; expected numbers; the weights or the "
                "LoRA shards are broken, or too large for this precision"
            )
        return are_open

    def read(self, rows: Sequence[int] | None = None) -> list[Written]:
        """Return what some rows hold so far, in ascending order; all unless given."""
        written = self._progress.n_written
        if rows is not None:
            chosen = torch.zeros_like(written, dtype=torch.bool)
            chosen[list(rows)] = True
            written = written.where(chosen, 0)
        places = torch.arange(self._tokens.shape[0], device=written.device)
        is_kept = places[:, None] < written
        counts = written.tolist()
        ends = accumulate(counts if rows is None else [counts[row] for row in rows], initial=0)
        tokens = self._tokens.T[is_kept.T].tolist()
        verified = None if self._verdicts is None else self._verdicts.read(is_kept)
        return [
            (
                tuple(tokens[start:end]),
                None if verified is None else tuple(verified[start:end]),
            )
            for start, end in pairwise(ends)
        ]

    def _next_numbers(self) -> Tensor:
        """Pick the random numbers of the next position, shape (n_rows, 3 or 1)."""
        # Nothing is kept beyond the last position, so any number will do there.
        _, n_positions, n_each = self._numbers.shape
        positions = self._progress.n_written.clamp(max=n_positions - 1)
        return self._numbers.gather(1, positions[:, None, None].expand(-1, -1, n_each))[:, 0]


def _write(column: Tensor, new: Tensor, places: Tensor) -> None:
    """Write each row's value at its own place; column: (n_places, n_rows, ...)."""
    shaped = places.view(1, -1, *[1] * (new.ndim - 1)).expand(1, *new.shape)
    column.scatter_(0, shaped, new[None])
