"""What human battles say beside a judge's, as rows and in plain words."""

from collections.abc import Mapping

from tournament_assets.audits.agreement import HumanAgreement
from tournament_assets.reports.formatting import format_confidence
from tournament_assets.tournament.asset_rows import HumanAgreementRow


def agreement_rows(found: HumanAgreement, *, dimension: str) -> list[HumanAgreementRow]:
    """Return the rows of table "human_agreement": all verdicts, and those that name a winner.

    Args:
        found: The agreement.
        dimension: The quality that was judged.
    """
    return [
        HumanAgreementRow(
            dimension=dimension,
            verdicts=name,
            comparisons=agreement.n,
            agreement=agreement.agreement,
            agreement_low=agreement.agreement_low,
            agreement_high=agreement.agreement_high,
            kappa=agreement.kappa,
            kappa_low=agreement.kappa_low,
            kappa_high=agreement.kappa_high,
            only_judge=found.n_only_judge,
            only_human=found.n_only_human,
            without_majority=found.n_without_majority,
            note=agreement.note if agreement.n else "no comparison that both sides decided",
        )
        for name, agreement in (("all", found.overall), ("decisive", found.decisive))
    ]


def agreement_sentence(found: HumanAgreement, *, dimension: str, confidence: float) -> str:
    """Say how far a judge agrees with people.

    Args:
        found: The agreement.
        dimension: The quality that was judged.
        confidence: Coverage of its intervals.
    """
    overall, decisive = found.overall, found.decisive
    alone = (
        f"{found.n_only_judge} comparisons are the judge's alone and {found.n_only_human} on the "
        "judged prompts are people's alone."
    )
    if found.n_without_majority:
        alone += (
            f" On {found.n_without_majority} more, one side's own verdicts are as often one as "
            "another; they are in no number."
        )
    if not overall.n:
        return (
            f"Judge and people share no comparison on {dimension}, so nothing is known of their "
            "agreement: expected human battles of two entrants whose question_id is a prompt_id "
            f"of the bank. {alone}"
        )
    interval = format_confidence(confidence)
    sentence = (
        f"On {dimension} the judge agrees with people on {overall.agreement:.1%} of "
        f"{overall.n} shared comparisons ({interval} interval {overall.agreement_low:.1%} to "
        f"{overall.agreement_high:.1%}), ties among them."
    )
    if overall.kappa is None:
        sentence += f" There is no kappa: {overall.note}."
    elif overall.kappa_low is None or overall.kappa_high is None:
        sentence += f" Kappa is {overall.kappa:.2f}, without an interval: {overall.note}."
    else:
        sentence += (
            f" Corrected for chance that is a kappa of {overall.kappa:.2f} ({interval} interval "
            f"{overall.kappa_low:.2f} to {overall.kappa_high:.2f})."
        )
    if decisive.n:
        sentence += (
            f" Where both name a winner, it is the same in {decisive.agreement:.1%} of {decisive.n}"
            f" ({interval} interval {decisive.agreement_low:.1%} to {decisive.agreement_high:.1%})."
        )
    else:
        sentence += " In none of them do both name a winner."
    return f"{sentence} {alone}"


def scale_sentence(*, judge: str | None, both: str | None) -> str:
    """Say which ratings may be compared across bases.

    Args:
        judge: By whom the judge's ratings were moved to the scale of the human battles; None if
            they were not.
        both: The same of the ratings by both.
    """
    if judge is not None and judge == both:
        return (
            f"All bases are on the arena's scale: {judge!r} stands where the human battles put it. "
            "Each interval says how well an entrant is known relative to the others of its basis."
        )
    parts = []
    for name, anchor in (("judge", judge), ("both", both)):
        if anchor is None:
            parts.append(
                f"nobody is rated by basis {name} and by the human battles, so {name} has a scale "
                "of its own: compare its ratings only with one another"
            )
        else:
            parts.append(
                f"basis {name} is on the arena's scale, by {anchor!r}, who stands where the human "
                "battles put it"
            )
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def left_out_sentence(too_few: Mapping[str, int], *, n_battles: int, min_battles: int) -> str:
    """Say who was left out for having too few human battles.

    Args:
        too_few: The battles each of them had in the file.
        n_battles: Battles that were left out with them.
        min_battles: The least number of battles.
    """
    if not too_few:
        return f"Everyone has at least {min_battles} human battles."
    listed = ", ".join(f"{name} ({count})" for name, count in too_few.items())
    return (
        f"Left out, with fewer than {min_battles} human battles among those who stay: {listed}; "
        f"{n_battles} battles went with them."
    )
