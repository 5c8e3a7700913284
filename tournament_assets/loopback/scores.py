"""Scores of one response, by the words it shares with what was wanted: no language model.

The message shows parts between fenced tags; the last one is what is scored.
"""

import json
import re

from tournament_assets.loopback.traits import examine, list_content_words

_PART = re.compile(
    r'<(?P<name>[a-z][a-z0-9_]*) fence="(?P<code>[^"\n]+)">\n(?P<text>.*?)\n?'
    r'</(?P=name) fence="(?P=code)">',
    re.DOTALL,
)


def score_lexically(user_text: str, *, names: tuple[str, ...]) -> str:
    """Return a JSON object with a reason and a score from 0 to 1.

    Args:
        user_text: The user message.
        names: The names of the object's values, in their order.
    """
    parts = [match["text"] for match in _PART.finditer(user_text)]
    *wanted, response = parts or [user_text]
    words = list_content_words("\n".join(wanted))
    score = round(examine(response).measure_coverage(words), 2) if words else 0.5
    reason = f"It has {score:.0%} of the words that what comes before it asks for."
    values = {"reason": reason, "score": score}
    return json.dumps({name: values[name] for name in names}, ensure_ascii=False)
