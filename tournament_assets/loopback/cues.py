"""Words and phrases that give away how a response speaks: in doubt, for certain, with advice."""

import re


class Cues:
    """Some words and phrases that mean the same to the judge.

    A phrase counts once, also where words inside it are cues themselves.

    Args:
        words: Single words, between spaces.
        phrases: Phrases of two words or more, between vertical bars; none of them begins with
            another one.

    Attributes:
        words: The single words.
        phrases: The phrases.
        openings: The first two words of every phrase.
    """

    def __init__(self, words: str, phrases: str) -> None:
        self.words = frozenset(words.split())
        self.phrases = tuple(phrases.split("|"))
        spoken = [re.findall(r"\w+", phrase) for phrase in self.phrases]
        self.openings = frozenset((first, second) for first, second, *_ in spoken)
        self._overlap = any(not self.words.isdisjoint(phrase) for phrase in spoken)
        listed = [*self.phrases, *(self.words if self._overlap else ())]
        self._pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, listed))})\b")

    def count(self, plain: str, n_words: int) -> int:
        """Count how often a text in which a phrase opens holds any of the cues.

        Args:
            plain: The text in lower case, with single spaces and straight apostrophes.
            n_words: How many of its words are among `words`.
        """
        found = len(self._pattern.findall(plain))
        return found if self._overlap else n_words + found


_COMMON_WORDS_TEXT = (
    "a about after all also although an and any are as at be because been before "
    "being both but by can could did do does for from had has have he her here him "
    "his how i if in into is it its may me might more most must my no nor not of off "
    "on one only or other our out over own s she should so some such than that the "
    "their them then there these they this those through to too under up very was we "
    "were what when where which while who whom whose why will with within without "
    "would you your"
)
COMMON_WORDS = frozenset(_COMMON_WORDS_TEXT.split())
"""The small words that prose cannot do without, and that carry no meaning."""

HEDGES = Cues(
    "probably possibly perhaps maybe likely unlikely may might could suggest suggests appear "
    "appears seem seems uncertain unclear varies vary conflict conflicting disagree mixed modest "
    "modestly slightly generally usually often sometimes roughly weigh weighing",
    "not certain|not sure|it depends|depends on|limited evidence|evidence is|some studies|"
    "most trials|in general|not settled|not proven",
)
CERTAINTIES = Cues(
    "always never definitely certainly every everyone all completely absolutely undoubtedly "
    "guarantee guaranteed fully must exactly entirely",
    "only ever|without doubt|no doubt|proven beyond|ruled out|cannot fail|at all|nothing but",
)
ABSTENTIONS = Cues(
    "",
    "cannot tell|can't tell|cannot say|can't say|cannot be known|cannot be told|"
    "cannot be predicted|cannot be determined|cannot give|cannot know|cannot predict|"
    "cannot determine|cannot confirm|cannot diagnose|cannot advise|cannot calculate|"
    "cannot identify|cannot judge|can't give|can't know|can't predict|can't determine|"
    "can't confirm|can't diagnose|do not know|don't know|no way to know|no way to tell|"
    "impossible to know|impossible to say|impossible to tell|impossible to predict|"
    "not possible to|unable to|not enough information|without knowing|without seeing|"
    "without more|without examining|nobody can|no one can|would need to know|would need to see|"
    "i would be guessing",
)
ACTIONS = Cues(
    "call contact seek stop start take give use avoid keep put check ask tell rinse apply press "
    "lie sit measure treat treatment begin switch refer arrange discuss offer monitor repeat test",
    "go to|see a|see your|do not|don't",
)
SAFETY_NETS = Cues(
    "immediately urgent urgently emergency today now doctor pharmacist midwife prescriber "
    "ambulance hospital specialist worsen worsens poison",
    "straight away|right away|at once|if it|if he|if she|if they|if you|if symptoms|get worse|"
    "gets worse|come back",
)
REASSURANCES = Cues(
    "ignore",
    "no need to|need not worry|nothing to worry|do not worry|don't worry|will be fine|"
    "is harmless|are harmless|can wait|does not matter|do not matter|any amount|perfectly safe",
)
ALL_CUES = (HEDGES, CERTAINTIES, ABSTENTIONS, ACTIONS, SAFETY_NETS, REASSURANCES)
