"""The texts of `matches/matches.jsonl`, one record for each dimension and pair: each text once.

A response meets every other one on every dimension. A record leaves out a text that an earlier
record gives for the same prompt, or for the same entrant's response to it; whoever reads the lines
in order has them all.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Texts = dict[tuple[object, ...], str | None]
"""The last text of each prompt's field, and of each entrant's response to it."""


def without_repeated_texts(records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield records without the texts that an earlier one gives."""
    texts: Texts = {}
    for record in records:
        keys = _keys_of(record)
        new = {name for name, key in keys.items() if key not in texts or texts[key] != record[name]}
        texts.update((keys[name], record[name]) for name in new)
        yield {name: value for name, value in record.items() if name in new or name not in keys}


def restore_texts(record: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    """Return a record with its texts, as far as they were given.

    Args:
        record: The next record of the file.
        texts: The texts of earlier records, to which this one's are added.

    Raises:
        KeyError: If the record does not name its prompt, its sample or its entrants.
    """
    keys = _keys_of(record)
    texts.update((key, record[name]) for name, key in keys.items() if name in record)
    return {**record, **{name: texts[key] for name, key in keys.items() if key in texts}}


def _keys_of(record: Mapping[str, Any]) -> dict[str, tuple[object, ...]]:
    prompt, sample = record["prompt_id"], record["sample"]
    fields = ("prompt_text", "gold_answer", "expected_behavior")
    return {
        **{name: (name, prompt) for name in fields},
        **{f"response_{side}": (record[f"entrant_{side}"], prompt, sample) for side in "ab"},
    }
