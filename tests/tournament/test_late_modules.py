import subprocess
import sys

import pytest

from tournament_assets.tournament.late_modules import late_module


def run(script: str) -> str:
    lines = "import sys\nfrom tournament_assets.tournament.late_modules import late_module\n"
    done = subprocess.run(
        [sys.executable, "-c", lines + script], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_late_module_is_imported_by_its_first_use_and_not_before() -> None:
    printed = run(
        "mailbox = late_module('mailbox')\n"
        "print('mailbox' in sys.modules)\n"
        "mailbox.Maildir\n"
        "print('mailbox' in sys.modules)\n"
    )
    assert printed.split() == ["False", "True"]


def test_looking_at_a_late_module_does_not_import_it() -> None:
    printed = run(
        "import inspect\n"
        "mailbox = late_module('mailbox')\n"
        "inspect.unwrap(mailbox), repr(mailbox), hasattr(mailbox, '__wrapped__')\n"
        "print('mailbox' in sys.modules)\n"
    )
    assert printed.split() == ["False"]


def test_a_late_module_has_what_the_module_has() -> None:
    import email.message

    late = late_module("email.message")
    assert late.Message is email.message.Message
    assert vars(late)["Message"] is email.message.Message
    with pytest.raises(AttributeError, match=r"email\.message.*'Massage'"):
        late.Massage  # noqa: B018
