"""The requests that a scheduled rerun sends to repeat judgments."""

from collections.abc import Sequence

from tournament_assets.project.plan import TournamentPlan


def anchor_requests(plan: TournamentPlan, pairs: Sequence[int]) -> int:
    """Return how many requests repeat the anchor pairs, two for each.

    Args:
        pairs: The pairs that are judged, of each dimension.
    """
    return 2 * sum(map(plan.config.judging.tests.n_anchors, pairs))


ROWS = (anchor_requests,)
