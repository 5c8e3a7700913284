import pytest

from tests.torture.conftest import Setup
from tests.torture.kills import TIMEOUT, kill_everywhere, scenarios_of


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("scenario", scenarios_of("openai_batch", "openai_api"))
def test_wherever_a_process_is_killed_the_next_one_loses_no_verdict_and_pays_for_none_twice(
    scenario: str, set_up: Setup
) -> None:
    killed = kill_everywhere(scenario, set_up)
    assert killed.places
    assert killed.wrong == []
