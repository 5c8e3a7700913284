"""The numbers of every case are those that were frozen."""

import sys
from pathlib import Path

import pytest

from tests.golden import frozen_tables
from tests.golden.cases import Case, every_case, every_name, frozen

CASES = every_case()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_number_moves(case: Case, tmp_path: Path) -> None:
    numbers = case(tmp_path / "project")
    before = frozen_tables.read(frozen(case))
    moved, passed_over = frozen_tables.compare(before, numbers, every_name())
    if passed_over:
        sys.stdout.write(f"not in the golden: {'; '.join(passed_over)}\n")
    advice = f"{len(moved)} moved; on purpose? python -m tests.golden.freeze {case.__name__}"
    assert not moved, "\n".join([advice, *moved])


BEFORE: frozen_tables.Numbers = {
    "measures": [{"dimension": "d", "measure": "bias", "value": "0.25"}],
    "jury": [{"model_id": "ada", "value": "1"}],
}


def compared(*rows: frozen_tables.Row, **more: list[frozen_tables.Row]) -> tuple[str, str]:
    """Return how many numbers moved that no golden knows, and what is passed over."""
    after = {**BEFORE, "measures": [*rows], **more}
    moved, passed_over = frozen_tables.compare(BEFORE, after, frozen_tables.names_of([BEFORE]))
    return "; ".join(moved), "; ".join(passed_over)


def test_what_no_golden_names_is_passed_over_and_what_one_holds_has_to_be_there() -> None:
    (bias,) = BEFORE["measures"]
    assert compared(bias) == ("", "")
    assert compared(bias, {**bias, "measure": "luck"}) == ("", "measures [d, luck]")
    assert compared({**bias, "unit": "p"}, added=[{"n": "1"}]) == ("", "added; measures unit")
    assert compared({**bias, "measure": "luck"}) == (
        "measures [d, bias]: the row is gone",
        "measures [d, luck]",
    )
    assert compared(bias, bias) == ("measures [d, bias']: the row is new", "")
    assert compared({**bias, "value": "0.5", "unit": "p"}) == (
        "measures [d, bias] value: 0.25 → 0.5",
        "measures unit",
    )
    assert compared(bias, jury=[]) == ("jury [ada]: the row is gone", "")
