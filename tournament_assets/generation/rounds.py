"""Rounds of decoding: what is drafted, verified and kept, on tensors that stay where they are.

A round reads and changes the same tensors every time, has shapes that follow from the settings
alone, and never waits for the device, so it can be recorded and replayed (see `cuda_graphs`). What
it yields is written down on the device and read once, at the end.
"""

from itertools import accumulate, pairwise

import torch
from torch import Tensor

from tournament_assets.generation.decoded import VerifiedToken
from tournament_assets.generation.decoding_settings import DecodingMode, DecodingSettings
from tournament_assets.generation.drafting import Drafter
from tournament_assets.generation.hydra import HydraModel
from tournament_assets.generation.progress import Progress
from tournament_assets.generation.verifying import Verdict, verify
from tournament_assets.tournament.errors import GenerationError

Written = tuple[tuple[int, ...], tuple[VerifiedToken, ...] | None]
"""The token ids of one response, and what a jury made of them; None without a jury."""


_STEP = 32
_STEP_ON_CUDA = 256
"""Attention looks at multiples of so many slots; on a GPU each number of slots is recorded."""


def round_up(n_slots: int, *, device: torch.device) -> int:
    """Return the number of slots, at least this many, that attention looks at on a device."""
    step = _STEP_ON_CUDA if device.type == "cuda" else _STEP
    return -(-n_slots // step) * step


class Rounds:
    """A batch that is being decoded.

    Attributes:
        heads: The drawn head of each row, shape (n_rows,).
        witnesses: What the speaking heads passed to the final norm in the first round,
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
        """Make room for what the rounds will yield.

        Args:
            model: Who answers.
            drafter: Has read the prompts.
            settings: How to decode.
            progress: At the last token of each prompt.
            heads: The drawn head of each row, shape (n_rows,).
            numbers: Random numbers of each row and position, shape (n_rows, n_positions, 3).
            prompt_length: Tokens that prompts are padded to.
        """
        self.heads = heads
        self._drafter = drafter
        self._settings = settings
        self._progress = progress
        self._numbers = numbers
        self._prompt_length = prompt_length
        device = model.device
        n_rows, n_rounds, _ = numbers.shape  # a round adds at least one token to what is open
        shape = (n_rounds, n_rows, settings.gamma)
        self._number = torch.zeros(1, dtype=torch.long, device=device)
        self._broken = torch.zeros((), dtype=torch.bool, device=device)
        self._n_kept = torch.zeros(shape[:2], dtype=torch.long, device=device)
        self._verdicts = None
        if settings.mode is DecodingMode.FULL_POE:
            self._verdicts = Verdict.zeros(*shape, n_heads=model.n_heads, device=device)
            self._tokens = self._verdicts.tokens
        else:
            self._tokens = torch.zeros(shape, dtype=torch.long, device=device)
        self.witnesses = torch.zeros(
            (n_rows, model.shape.hidden_size), dtype=model.dtype, device=device
        )

    def n_slots(self, number: int) -> int:
        """How many slots are looked at in a round, counted from 0; rows at their end need fewer.

        It depends on no row: a response's bits may depend on how many there are.
        """
        # In every round a row comes `gamma` positions further at most, and reads as many.
        needed = self._prompt_length + (number + 1) * self._settings.gamma - 1
        return round_up(needed, device=self._numbers.device)

    def play(self, n_slots: int) -> None:
        """Play one round; nothing in it waits for the device.

        Args:
            n_slots: Slots that attention looks at, enough for all that is read in this round.
        """
        settings, progress = self._settings, self._progress
        uniforms = self._next_numbers()
        drafts = self._drafter.draft(
            progress.tokens, progress.positions, uniforms[..., 0], n_slots=n_slots
        )
        self.witnesses.copy_(torch.where(self._number == 0, drafts.witnesses, self.witnesses))
        self._broken |= drafts.q[..., 0].isnan().any()  # a law is NaN everywhere or nowhere
        if drafts.jury is None or self._verdicts is None:
            tokens, n_standing = drafts.tokens, torch.ones_like(progress.n_written)
            self._write(self._tokens, tokens)
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
            tokens, n_standing = verdict.tokens, verdict.n_standing
            self._broken |= verdict.entropies.isnan().any()
            for column, new in zip(self._verdicts.columns, verdict.columns, strict=True):
                self._write(column, new)
        self._write(self._n_kept, progress.keep(tokens, n_standing))
        self._number += 1

    def is_open(self) -> bool:
        """Wait for the device, and tell whether any response may still grow.

        Raises:
            GenerationError: If the logits of a round so far were not numbers.
        """
        is_open, is_broken = torch.stack((self._progress.is_open, self._broken)).tolist()
        if is_broken:
            raise GenerationError(
                "the model's logits hold NaN or infinity; expected numbers; the weights or the "
                "LoRA shards are broken, or too large for this precision"
            )
        return bool(is_open)

    def read(self) -> list[Written]:
        """Return what stands in each row so far."""
        places = torch.arange(self._settings.gamma, device=self._n_kept.device)
        kept = places < self._n_kept[..., None]  # (n_rounds, n_rows, n_drafts)
        ends = accumulate(self._n_kept.sum(dim=0).tolist(), initial=0)
        tokens = self._tokens.transpose(0, 1)[kept.transpose(0, 1)].tolist()
        verified = None if self._verdicts is None else self._verdicts.read(kept)
        return [
            (
                tuple(tokens[start:end]),
                None if verified is None else tuple(verified[start:end]),
            )
            for start, end in pairwise(ends)
        ]

    def _next_numbers(self) -> Tensor:
        """Pick the random numbers of the next positions, shape (n_rows, n_drafts, 3)."""
        ahead = torch.arange(self._settings.gamma, device=self._numbers.device)
        positions = self._progress.n_written[:, None] + ahead
        # Nothing is kept beyond the last position, so any number does there.
        positions = positions.clamp(max=self._numbers.shape[1] - 1)
        return self._numbers.gather(1, positions[..., None].expand(-1, -1, 3))

    def _write(self, column: Tensor, new: Tensor) -> None:
        column.index_copy_(0, self._number, new[None])
