"""The second prompt: asks an uncertainty head whether a response is correct."""

import re

SECOND_PROMPT = (
    "Is the answer correct? Reply with A for yes or B for no.\n"
    "Question: {prompt}\n"
    "Answer: {response}"
)
"""What an uncertainty head is asked unless the configuration says otherwise."""

_MARK = re.compile(r"\{(prompt|response)\}")


def fill_in(template: str, *, prompt: str, response: str) -> str:
    """Put a prompt and its response into a second prompt.

    Both are put in as they stand, in one pass: braces in them mean nothing, a prompt that holds
    `{response}` among them. Other braces of the template stay too.

    Args:
        template: Such as `SECOND_PROMPT`; `{prompt}` and `{response}` mark where they belong.
        prompt: What was asked.
        response: What was answered.
    """
    texts = {"prompt": prompt, "response": response}
    return _MARK.sub(lambda mark: texts[mark[1]], template)
