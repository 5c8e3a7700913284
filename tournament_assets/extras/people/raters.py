"""What raters add to a variance where they are a random draw of people.

All labels of one rater share that person's taste, as all labels on one prompt share the prompt.
Sources: Cameron, Gelbach and Miller, "Robust inference with multiway clustering",
https://doi.org/10.1198/jbes.2010.07136; Satterthwaite, "An approximate distribution of estimates of
variance components", https://doi.org/10.2307/3002019.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MIN_RATERS = 5
"""With fewer raters, people's opinion gets no interval: they show too little how people differ."""


def too_few_raters(n_raters: int, *, are_all_known: bool = True) -> str | None:
    """Explain why so many known raters do not show how people differ; None if they do."""
    if n_raters >= MIN_RATERS and are_all_known:
        return None
    count = f"labels of {n_raters} known {'person' if n_raters == 1 else 'people'}"
    return (
        f"{count}; an interval of people's opinion needs {MIN_RATERS}, and to know who gave each "
        "label: ask more people, or set labels.about to these_raters"
    )


@dataclass(frozen=True, slots=True, eq=False)
class RaterSpread:
    """Covariances of estimates, shape (n_estimates, n_estimates).

    Attributes:
        by_rater: By raters alone.
        added: What they add to the covariance by prompt.
    """

    by_rater: Floats
    added: Floats
    n_raters: int

    @classmethod
    def of(
        cls, influence: Floats, *, prompts: NDArray[np.int64], raters: NDArray[np.int64]
    ) -> "RaterSpread":
        """Cluster by rater, and take off what a rater's labels on one prompt have in common.

        Args:
            influence: How far each label moves the estimates, less the mean of its kind, shape
                (n_labels, n_estimates).
            prompts: The prompt of each label, shape (n_labels,).
            raters: Its rater, shape (n_labels,); two at least.
        """
        n_raters = np.unique(raters).size
        by_rater, by_both = (
            _sums(influence, groups) for groups in (raters, prompts * (raters.max() + 1) + raters)
        )
        of_raters = by_rater.T @ by_rater * (n_raters / (n_raters - 1))
        values, vectors = np.linalg.eigh(of_raters - by_both.T @ by_both)
        added = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return cls(np.asarray(of_raters), np.asarray(added), n_raters)

    def degrees_of_freedom(self, by_prompt: Floats, *, of_prompts: int) -> int:
        """Return Satterthwaite's, for a sum of variances that each have their own.

        Args:
            by_prompt: The covariance by prompt, which `added` is added to.
            of_prompts: Its degrees of freedom.
        """
        both, prompts, raters = (
            np.trace(each) for each in (by_prompt + self.added, by_prompt, self.by_rater)
        )
        of_raters = self.n_raters - 1
        if both == 0:
            return of_raters
        freedom = both**2 / (prompts**2 / of_prompts + raters**2 / of_raters)
        return int(np.clip(freedom, of_raters, max(of_raters, of_prompts)))


def _sums(influence: Floats, groups: NDArray[np.int64]) -> Floats:
    """Sum the influence by group, shape (n_groups, n_estimates)."""
    _, place = np.unique(groups, return_inverse=True)
    return np.stack([np.bincount(place, column) for column in influence.T], axis=1)
