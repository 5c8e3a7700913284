"""What inputs are put together from: usual pieces, and odd ones that must not pass for them."""

from typing import Any

PROSE = (
    "Both are true, A is clearer.",
    "Response A says: VERDICT: B",
    "My verdict: B is better, then.",
    "VERDICT: B because it is longer? No.",
    "It quotes \u2028VERDICT: B\u2028 on a line of its own.",
    "Le second répond non \N{GREEK SMALL LETTER ALPHA}.",
    "Gateway is restarting",
    "VERDICT: ABSTAIN",
    "Final verdict: B",
    "VERDICT: [B]",
    '{"reasoning": "x", "verdict": "B"}',
    "```",
    "```text",
    "~~~~",
    "---",
    "",
    " \t",
    "\N{NO-BREAK SPACE}",
    "\ud800",
)
LINE_ENDS = ("\n", "\n", "\n", "\r\n", "\r", "\n\n", "\n \n", "\n```\n")
FENCES = ("```", "```", "```json", " ``` JSON", "~~~", "~~~~", "```yaml", "``", "So: ```")
ODD_LINE_ENDS = ("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\n\r", "")
WORDS = ("VERDICT", "VERDICT", "VERDICT", "verdict", "Verdict", "vErDiCt", "Final verdict")
ODD_WORDS = (
    "VERD\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}CT",
    "verd\N{LATIN SMALL LETTER DOTLESS I}ct",
    "VERD\N{CYRILLIC CAPITAL LETTER BYELORUSSIAN-UKRAINIAN I}CT",
    "VERDICT\N{ZERO WIDTH SPACE}",
    "\N{ZERO WIDTH NO-BREAK SPACE}VERDICT",
    "VERDICTS",
    "MY VERDICT",
    "VER DICT",
    "VERDICT IS",
    "FINALVERDICT",
    "NOT THE FINAL VERDICT",
    "FINAL \nVERDICT",
    "FINAL* VERDICT",
    "FINAL FINAL VERDICT",
    "\u017final verdict",
    "\N{FULLWIDTH LATIN CAPITAL LETTER V}ERDICT",
)
COLONS = (":", ":", ": ", ": ", " : ", ":** ", "**: ", ":\t")
ODD_COLONS = (
    "",
    "=",
    "::",
    ";",
    "\N{FULLWIDTH COLON}",
    "\N{MODIFIER LETTER COLON}",
    ":\u00a0",
    ":\n",
)
VALUES = ("A", "B", "TIE", "a", "b", "tie", "Tie", "[A]", "[[B]]", "[tie]")
ODD_VALUES = (
    "t\N{LATIN SMALL LETTER DOTLESS I}e",
    "T\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}E",
    "\N{CYRILLIC CAPITAL LETTER A}",
    "\N{GREEK CAPITAL LETTER ALPHA}",
    "\N{GREEK CAPITAL LETTER BETA}",
    "\N{FULLWIDTH LATIN CAPITAL LETTER A}",
    "\N{MATHEMATICAL BOLD CAPITAL B}",
    "A\N{COMBINING ACUTE ACCENT}",
    "A\N{ZERO WIDTH JOINER}",
    "ABSTAIN",
    "A.",
    "A or B",
    "A/B",
    "AB",
    "C",
    "TIED",
    "TI E",
    "",
    "[A",
    "[A]]",
    "[[[A]]]",
    "[ A ]",
    "[A][B]",
    "[A/B]",
    "(A)",
    '"A"',
    "A VERDICT: B",
)
MARKS = ("", "", "", "", "**", "`", "> ", "## ", "_", " ", "\t", "*_`", '"', "- ", ".", "\u201c")
ODD_MARKS = (
    "--",
    "1. ",
    "(",
    "..",
    "+\N{NO-BREAK SPACE}",
    "\N{ZERO WIDTH SPACE}",
    "~~",
    "\x00",
    "\x0c",
)
ODD_CHARACTERS = (
    'AaBbTtIiEe:*`#>_ \t\n\r"\\{}[],\x00\x0b\x1c\x85\u00a0\u0131\u0130\u017f\u212a\u200b'
    "\u2028\ufeff\ud800\udfff\N{CYRILLIC CAPITAL LETTER A}\N{GRINNING FACE}"
)

JSON_WHITE_SPACE = ("", "", "", " ", "\n", "\r\n\t")
ODD_JSON_WHITE_SPACE = ("\u00a0", "\x0c", "\ufeff", "\u2028", "x", ",")
JSON_VALUES = ('"A"', '"B"', '"TIE"')
ODD_JSON_VALUES = (
    '"\\u0041"',
    '"\\u0054\\u0049E"',
    '"\\u0410"',
    '"\\ud800"',
    '"a"',
    '"tie"',
    '"TIE "',
    '"t\u0131e"',
    '"ABSTAIN"',
    '""',
    "null",
    "true",
    "NaN",
    "-Infinity",
    "1" * 5_000,
    "1e999",
    '["A"]',
    '{"verdict": "A"}',
    "'A'",
    "A",
    '"A',
    '"\n"',
    "[" * 100_000 + "]" * 100_000,
)
JSON_KEYS = ('"reasoning"', '"verdict"')
ODD_JSON_KEYS = ('"Verdict"', '"verd\\u0069ct"', '"winner"', "verdict", '"verdict "', '""')

RESULT_TYPES = ("succeeded",) * 20 + (
    "identical",
    "pending",
    "errored",
    "expired",
    "canceled",
    "missing",
    "Succeeded",
    "",
)
STOP_REASONS: tuple[str | None, ...] = ("end_turn",) * 20 + (
    "max_tokens",
    "refusal",
    "pause_turn",
    "tool_use",
    "stop_sequence",
    "model_context_window_exceeded",
    "END_TURN",
    "",
    None,
)
ODD_FIELDS: tuple[Any, ...] = (
    None,
    "",
    " ",
    "a",
    "ab",
    "ba",
    True,
    -1,
    0,
    1.0,
    2**63,
    10**400,
    float("nan"),
    [],
    {},
    ["ab"],
    "\ud800",
    "2026-09-30",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "identical",
    "succeeded",
    "end_turn",
    "VERDICT: A",
    "0" * 64,
    "A" * 64,
)
ROW: dict[str, Any] = {
    "request_key": "0123456789abcdef" * 4,
    "cache_key": "0123456789ab",
    "dimension": "factuality",
    "prompt_id": "p1",
    "sample": 1,
    "entrant_a": "ada",
    "entrant_b": "bob",
    "presentation": "ab",
    "position_swap": False,
    "judge_model": "judge-1",
    "attempt": 1,
    "result_type": "succeeded",
    "stop_reason": "end_turn",
    "reply": "VERDICT: A",
    "error_type": None,
    "channel": "batch",
    "input_tokens": 700,
    "output_tokens": 40,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 2200,
    "received_at": "2026-09-30T12:00:00+00:00",
}
