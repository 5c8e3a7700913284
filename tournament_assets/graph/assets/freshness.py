"""Whether what was made rests on its inputs as they are now, said where people look.

Dagster's page of a partition shows that it is out of date, its graph and lists do not. So checks
on what reads an input, and on the leaderboard, name what was made from an older one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tournament_assets.graph.assets.observed_inputs import InputVersion
from tournament_assets.graph.outputs import Check
from tournament_assets.runs.provenance import Recorded, Records
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.fingerprints import short


@dataclass(frozen=True, slots=True)
class FreshnessCheck:
    """A check that an asset rests on an input as it is now.

    Attributes:
        name: The check's name.
        description: What holds while it is green.
        asset: The asset that reads the input.
        input_asset: What it reads.
        hash_key: Under which metadata key it records the input's version.
        label_key: Under which it records what people call the version; None if nothing.
        verb: What was done with the input.
        noun: What the input is.
    """

    name: str
    description: str
    asset: str
    input_asset: str
    hash_key: str
    label_key: str | None
    verb: str
    noun: str


RUBRIC_CHECK = FreshnessCheck(
    name="rubric_is_current",
    description="Everything was judged with the rubric as it is now.",
    asset="judge_replies",
    input_asset="rubrics",
    hash_key="rubric_hash",
    label_key="rubric_version",
    verb="judged",
    noun="rubric",
)
ENTRANT_CHECK = FreshnessCheck(
    name="entrant_is_current",
    description="Every response was given by the entrant as it is now.",
    asset="entrant_responses",
    input_asset="entrants",
    hash_key="entrant_hash",
    label_key=None,
    verb="answered",
    noun="entrant",
)
BANK_CHECK = FreshnessCheck(
    name="bank_is_current",
    description="The prompts are those of the bank's file as it is now.",
    asset="prompt_bank",
    input_asset="prompt_file",
    hash_key="content_hash",
    label_key=None,
    verb="read",
    noun="bank",
)
CHECKS = (BANK_CHECK, ENTRANT_CHECK, RUBRIC_CHECK)
LEADERBOARD_CHECK = "inputs_are_current"
LEADERBOARD_DESCRIPTION = (
    "The table rests on the bank, the entrants and the rubrics as they are now."
)


def find_outdated(
    check: FreshnessCheck,
    inputs: Iterable[InputVersion],
    records: Records,
    *,
    modes: Sequence[Mode],
    just_made: Mapping[str | None, Recorded] | None = None,
) -> list[str]:
    """Compare what materialisations say of an input with the input.

    What was never materialised, or does not say what it was made from, is not out of date. An
    entrant whose files are not on this machine is passed over: another one may have them.

    Args:
        check: What to look at.
        inputs: The inputs as they are now; others than the check's are passed over.
        records: What materialisations say.
        modes: The tournament's modes.
        just_made: What is being materialised, by partition, in place of what is recorded.

    Returns:
        What was made from an older input, what from, and what the input is now, a sentence each.
    """
    outdated: list[str] = []
    for each in inputs:
        if each.asset != check.input_asset:
            continue
        for mode in modes:
            # Dagster joins the values of a partition in the order of the names of the dimensions,
            # and `mode` comes after both `dimension` and `entrant`.
            partition = mode if each.partition is None else f"{each.partition}|{mode}"
            made = (just_made or {}).get(partition) or records(check.asset, partition)
            sentence = made and _compare(check, each, made)
            if sentence:
                outdated.append(f"{partition.replace('|', ', ')}: {sentence}")
    return outdated


def _compare(check: FreshnessCheck, now: InputVersion, made: Recorded) -> str | None:
    before = made.get(check.hash_key)
    if before is None or (now.version is None and check is ENTRANT_CHECK):
        return None
    label = made.get(check.label_key) if check.label_key else None
    then = f"{check.verb} with {check.noun} {_name(label and f'v{label}', before)}"
    if now.version is None:
        return f"{then}; the file cannot be used now: {now.problem}"
    if short(now.version) == before:
        return None
    same_label = bool(label) and now.label == f"v{label}"
    reminder = "; raise its version line with every edit" if same_label else ""
    return f"{then}, it is {_name(now.label, short(now.version))} now{reminder}"


def _name(label: str | None, version: str) -> str:
    return f"{label} ({version})" if label else version


def freshness_result(check: FreshnessCheck, outdated: Sequence[str]) -> Check:
    """Say in an asset check what is out of date."""
    return _result(check.name, check.description, outdated)


def leaderboard_result(
    inputs: Sequence[InputVersion], records: Records, modes: Sequence[Mode]
) -> Check:
    """Say in a check on the leaderboard what is out of date in any mode."""
    outdated = [
        each for check in CHECKS for each in find_outdated(check, inputs, records, modes=modes)
    ]
    return _result(LEADERBOARD_CHECK, LEADERBOARD_DESCRIPTION, outdated)


def _result(name: str, description: str, outdated: Sequence[str]) -> Check:
    said = "; ".join(outdated) or description
    return Check(name, not outdated, said, {"out_of_date": len(outdated)})
