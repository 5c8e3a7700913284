"""How measured shares are put into words."""

from tournament_assets.audits.agreement import Proportion


def nothing_judged(asked: int, what: str) -> str:
    """Say that nothing is known, and what to do about it."""
    if asked == 0:
        return f"No {what} was asked, so nothing is known of this; ask some."
    return (
        f"Not one {what} of {asked} is judged, so nothing is known of this; "
        "see what the replies say, and run again."
    )


def share_in_words(share: Proportion, noun: str, confidence: float) -> str:
    """Write a share with its interval."""
    if share.rate is None or share.low is None or share.high is None:
        return f"0 of 0 {noun}"
    return (
        f"{share.count} of {share.n} {noun} ({share.rate:.1%}; {100 * confidence:g}% interval "
        f"{share.low:.1%} to {share.high:.1%})"
    )
