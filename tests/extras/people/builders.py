"""Builds a desk at which pairs are labelled."""

from typing import Any

from tournament_assets.extras.people.label_records import pair_identity
from tournament_assets.extras.people.labelling.page import LabelDesk
from tournament_assets.extras.people.labelling.sampling import draw_label_sample
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.tournament.judges import Rubric

SALT = "salt"
SCOPE: dict[str, Any] = {"tournament_id": "tiny", "mode": "pilot", "dimension": "factuality"}


def pairs(n_prompts: int = 10, *, same: int = 0) -> list[PairToJudge]:
    """Three pairs a prompt; in the first `same` prompts ada and bob say the same."""
    return [
        PairToJudge(
            prompt_id=f"p{number}",
            source="recall",
            prompt_text=f"What is {number}?",
            entrant_a=first,
            entrant_b=second,
            response_a=f"{first} on {number}",
            response_b=f"{first if number < same and second == 'bob' else second} on {number}",
            gold_answer=f"gold {number}",
            expected_behavior="hedge",
        )
        for number in range(n_prompts)
        for first, second in (("ada", "bob"), ("ada", "cy"), ("bob", "cy"))
    ]


def desk(
    size: int = 20, *, overlap: float = 0.2, dimension: str | None = "factuality"
) -> LabelDesk:
    sample = draw_label_sample(
        pairs(), **{**SCOPE, "dimension": dimension}, size=size, overlap=overlap
    )
    of_id = {pair_identity(pair, "tiny", "pilot", dimension)["pair_id"]: pair for pair in pairs()}
    rubric = Rubric(dimension="factuality", version="1", text="# version: 1\n\nTruer is better.")
    drawn = {each.pair_id for each in sample.pairs}
    return LabelDesk(
        sample=sample,
        texts={name: pair for name, pair in of_id.items() if name in drawn},
        rubrics={"factuality": rubric},
        salt=SALT,
        shows_gold_answer=dimension is not None,
    )


def shown_pairs(of: LabelDesk, *, shared: bool | None = None) -> list[str]:
    """The names on a page of all pairs, or of those shared or not, in the order of drawing."""
    pairs = [each for each in of.sample.pairs if shared in (None, each.shared)]
    return [of.shown_id(each.pair_id) for each in pairs]


def row(of: LabelDesk, place: int, said: str = "A", *, first: str = "a", **changed: Any) -> Any:
    pair = of.sample.pairs[place]
    return {
        "id": f"{place:032x}",
        "pair": pair.pair_id,
        "first": pair.digest_a if first == "a" else pair.digest_b,
        "said": said,
        "age": 1500,
        "seconds": 4.2,
        **changed,
    }
