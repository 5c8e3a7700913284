"""Records rounds of decoding once and replays them, so that a GPU does not wait for Python.

A round of a large model is some thousand small kernels, which Python starts more slowly than a fast
GPU runs them. A CUDA graph holds all of them and is started at once. What is replayed are the
kernels, not the code: a round must read and write tensors that stay where they are, must have the
same shapes each time, and must not wait for the device. `Rounds.play` is written that way.

Recording has not been run on a GPU yet. On a CPU, tests replay traced rounds to the same bits.
"""

from collections.abc import Callable

import torch


class GraphedRounds:
    """Plays rounds like the function it is given, from the third of each size on by replaying."""

    def __init__(self, play: Callable[[int], None], *, device: torch.device) -> None:
        """Prepare to record.

        Args:
            play: Plays one round over a number of slots; rounds over equally many are alike.
            device: A CUDA device, on which all tensors are.
        """
        self._play = play
        self._device = device
        self._warm: set[int] = set()
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # Nothing that one graph computes on the way is needed by another: they share the memory.
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, n_slots: int) -> None:
        """Play one round over this many slots."""
        with torch.cuda.device(self._device):
            if n_slots not in self._warm:
                # Libraries set themselves up in their first calls, which cannot be recorded.
                self._play_aside(n_slots)
                self._warm.add(n_slots)
                return
            if n_slots not in self._graphs:
                # Recording runs nothing: the round is played by the replay below.
                self._graphs[n_slots] = self._record(n_slots)
            self._graphs[n_slots].replay()

    def _play_aside(self, n_slots: int) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._play(n_slots)
        torch.cuda.current_stream().wait_stream(self._stream)

    def _record(self, n_slots: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            self._play(n_slots)
        return graph
