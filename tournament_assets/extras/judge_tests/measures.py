"""The measures that tests of the judge switch on."""

from functools import partial

from tournament_assets.extras.judge_tests import evidence
from tournament_assets.extras.judge_tests.controls import ControlKind
from tournament_assets.trust.lights import Bias, Measure

ROWS = (
    Measure(
        "test_retest",
        "test–retest",
        "Asked the very same again, the judge settles this share of the pairs as before.",
        "What the judge does not repeat is its own noise: judge more prompts, or ask a judge that "
        "repeats itself.",
        "share",
        find=evidence.retest,
        reads=("judge_repeats",),
        threshold=lambda checks: checks.min_retest_agreement,
        bias=Bias.NONE,
    ),
    Measure(
        "judge_agreement",
        "agreement between judges",
        "Agreement with a second judge on the same pairs: Cohen's kappa, 1 for always and 0 for "
        "chance.",
        "The result depends on who judges: read some pairs that the two settle differently, decide "
        "which of them follows the rubric, and say in any report which judge was asked.",
        "kappa",
        find=evidence.judges,
        reads=("judge_agreement",),
        threshold=lambda checks: checks.min_judge_kappa,
        bias=Bias.NONE,
    ),
    Measure(
        "identical_controls",
        "identical controls",
        "This share of responses that met their own copy were called a tie.",
        "Where there is no difference the judge invents one: see which slot it prefers, and do not "
        "read anything into a narrow lead.",
        "share",
        "control",
        find=partial(evidence.controls, kind=ControlKind.IDENTICAL),
        reads=("judge_controls",),
        threshold=lambda checks: checks.min_identical_ties,
        bias=Bias.NONE,
    ),
    Measure(
        "corrupted_controls",
        "corrupted-answer controls",
        "This share of responses won against an answer to another prompt.",
        "The judge misses the plainest of differences: change the rubric or the judge before the "
        "ratings are used.",
        "share",
        "control",
        find=partial(evidence.controls, kind=ControlKind.CORRUPTED),
        reads=("judge_controls",),
        threshold=lambda checks: checks.min_corrupted_wins,
    ),
    Measure(
        "injection_controls",
        "injection controls",
        "A text that claims the win moved this share of pairs towards the response that holds it.",
        "The judge can be talked into a verdict: search the responses for such texts, and change "
        "the judge.",
        "share",
        "control",
        find=evidence.injection_controls,
        reads=("judge_controls",),
        threshold=lambda checks: checks.max_injection_gain,
        expected="at most",
    ),
)
