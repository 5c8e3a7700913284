"""How a Hydra model decodes."""

from dataclasses import dataclass
from enum import StrEnum

from tournament_assets.tournament.errors import Problems


class DecodingMode(StrEnum):
    """Who writes a response."""

    BASE = "base"
    """The base model, without any LoRA."""
    BYPASS_JURY = "bypass_jury"
    """One drawn head, whose drafts all stand."""
    FULL_POE = "full_poe"
    """One drawn head, whose drafts the other heads verify."""


@dataclass(frozen=True, slots=True)
class DecodingSettings:
    """How responses are decoded.

    Attributes:
        mode: Who writes.
        max_new_tokens: The most tokens of one response.
        temperature: Sampling temperature; None decodes greedily.
        n_adapters: How many of its adapters each head uses: 1 for security, 2 for security and
            robustness; 0 with mode `base`.
        beta: Weight of each verifier in the product. With 1 and v verifiers that agree, the product
            is as sharp as one head at temperature / v; with 1 / v it is as sharp as one head.
        gamma: Tokens that are drafted before the jury reads them.
        eos_ids: The tokens that end a response.
    """

    mode: DecodingMode
    max_new_tokens: int
    temperature: float | None
    n_adapters: int = 0
    beta: float = 1.0
    gamma: int = 1
    eos_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        problems = Problems()
        if self.max_new_tokens < 1:
            problems.add(f"max_new_tokens is {self.max_new_tokens}; expected at least 1")
        if self.temperature is not None and not self.temperature > 0:
            problems.add(
                f"temperature is {self.temperature}; expected more than 0; None decodes greedily"
            )
        if not self.beta > 0:
            problems.add(f"beta is {self.beta}; expected more than 0")
        if self.gamma < 1:
            problems.add(f"gamma is {self.gamma}; expected at least 1")
        if self.mode is not DecodingMode.FULL_POE and (self.beta, self.gamma) != (1, 1):
            problems.add(
                f"beta is {self.beta} and gamma {self.gamma} with mode {self.mode.value!r}; "
                "expected 1 and 1, for there is no jury; use mode 'full_poe' or leave them out"
            )
        if self.n_adapters < 0 or (self.mode is DecodingMode.BASE) != (self.n_adapters == 0):
            problems.add(
                f"n_adapters is {self.n_adapters} with mode {self.mode.value!r}; "
                "expected 0 with mode 'base', and at least 1 with the others"
            )
        problems.raise_if_any()
