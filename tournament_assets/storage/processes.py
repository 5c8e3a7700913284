"""Who a process is, so that one that died can be told from one that runs; and who stops it."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def own_identity() -> str:
    """Return what identifies this process: machine, process id and, on Linux, its start time."""
    return _identity(os.getpid())


def has_died(identity: str) -> bool:
    """Whether the process of an identity is certainly gone.

    A process of another machine may be alive for all that is known here. A process id that was
    given to a new process is told apart by the start time.
    """
    machine, _, rest = identity.partition("/")
    pid, _, _ = rest.partition("/")
    if machine != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _identity(int(pid)) != identity


def _identity(pid: int) -> str:
    return f"{socket.gethostname()}/{pid}/{_start_time(pid)}"


def _start_time(pid: int) -> str:
    """Clock ticks since boot at which a process started; empty where /proc does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The second field is the command in parentheses, which may itself hold spaces.
    return stat.rpartition(")")[2].split()[19]


@contextmanager
def noticed_interrupts() -> Iterator[Callable[[], bool]]:
    """Notice every interrupt from the keyboard, whatever else is done with it.

    Yields:
        Says whether one has come, then and afterwards. Outside the main thread none does.
    """
    came = bytearray()
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    receiver, sender = socket.socketpair()
    with receiver, sender:
        receiver.setblocking(False)
        sender.setblocking(False)

        def has_come() -> bool:
            # Nothing arrives once the sockets are closed.
            with suppress(OSError):
                came.extend(receiver.recv(4096))
            return signal.SIGINT in came

        before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        try:
            yield has_come
        finally:
            signal.set_wakeup_fd(before)
            has_come()
