import os
import subprocess
import sys

from tournament_assets.ledger.leases import has_died, own_identity


def test_this_process_is_alive() -> None:
    assert not has_died(own_identity())


def test_a_process_that_was_killed_has_died() -> None:
    script = (
        "from tournament_assets.ledger.leases import own_identity\n"
        "print(own_identity(), flush=True)\n"
        "input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        identity = process.stdout.readline().strip()
        assert not has_died(identity)
        process.kill()
    assert has_died(identity)


def test_a_new_process_with_the_id_of_an_old_one_is_another_process() -> None:
    machine, pid, _ = own_identity().split("/")
    assert has_died(f"{machine}/{pid}/1")


def test_of_a_process_on_another_machine_nothing_is_known() -> None:
    assert not has_died(f"elsewhere/{os.getpid()}/1")
    assert not has_died("nonsense")
