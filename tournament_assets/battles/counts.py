"""Battles as counts: one pass over any number of them, and as little memory as their models need.

Kept are, for every two models that met, the wins of each: of all battles, and of every resample of
the prompts. A resample gives each prompt a Poisson(1) weight, about as often as it would be drawn:
Hanley and MacGibbon, "Creating non-parametric bootstrap samples using Poisson frequencies",
https://doi.org/10.1016/j.cmpb.2006.04.006. The weights depend on a 64-bit hash of the prompt's text
and on the seed, so counts of parts add up to those of the whole, to the bit. Two prompts share
their weights only if they share their hash, as among 100 million prompts some two do with
probability .0003. Numbers are counted, not rounded: a tie is a half for each of two.
"""

import json
import math
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tournament_assets.battles.columns import (
    OUTCOMES,
    different_names,
    encode_battle_table,
    finer_preferences,
    name_codes,
    of_dimension,
)
from tournament_assets.battles.count_kernels import add_battles, collect_hashes, hash_texts
from tournament_assets.battles.files import new_file
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.foundation.input_files import MOST_ROWS_BYTES, open_input
from tournament_assets.ratings.bradley_terry import DrawWins, ResampledWins
from tournament_assets.ratings.matches import Matches

MANY_DRAWS = 2**26
"""Battles are counted once they and their resamples are more, unless a run wrote them."""

MOST_PROMPTS = 2**19
"""Up to these, different prompts are told apart in order to count them."""

SCHEME = "poisson by prompt, 1"
"""Names how weights follow from prompts; a change of any of them needs another number."""

_LARGEST_WEIGHT = 8
_FIRST_MODELS, _FIRST_CELLS = 64, 4_096


class UncountableError(Exception):
    """Battles with shares of a win, weights or several samples of a prompt, which are no counts."""


class BattleCounts:
    """The battles of one dimension, counted."""

    def __init__(self, resampling: Resampling) -> None:
        """Begin with nothing.

        Args:
            resampling: How many resamples, and the seed of the weights.
        """
        self._resampling = resampling
        self._tables = _random_tables(resampling.n, resampling.seed)
        self._place_of: dict[str, int] = {}
        self._names = np.zeros(0, dtype=np.uint64)
        self._cell_of = np.full((_FIRST_MODELS, _FIRST_MODELS), -1, dtype=np.int64)
        self._n_cells = 0
        self._ties = np.zeros(_FIRST_CELLS, dtype=np.int64)
        # Halves of wins: of all battles, and of each resample. Most cells need no more bits.
        self._sums: NDArray[Any] = np.zeros((_FIRST_CELLS, 1 + resampling.n), dtype=np.uint16)
        self._slots = np.zeros(2 * MOST_PROMPTS, dtype=np.uint64)
        self._n_prompts = 0
        self._n_without, self._chain = 0, np.uint64(0)

    @property
    def models(self) -> list[str]:
        """Everybody who fought, sorted."""
        return sorted(self._place_of)

    @property
    def n_prompts(self) -> int:
        """How many different prompts there were, at most `MOST_PROMPTS`."""
        return min(self._n_prompts, MOST_PROMPTS)

    @property
    def has_more_prompts(self) -> bool:
        """Whether there were more."""
        return self._n_prompts > MOST_PROMPTS

    def begin_file(self) -> None:
        """Let battles without a prompt depend on nothing before them."""
        self._n_without, self._chain = 0, np.uint64(0)

    def add(self, part: pa.Table) -> None:
        """Count battles, of which only models, winner and prompt matter."""
        self._place(different_names(part, "model_a") + different_names(part, "model_b"))
        first, second = (name_codes(part, side, self._place_of) for side in ("model_a", "model_b"))
        self._reserve(first, second)
        outcome = name_codes(part, "winner", OUTCOMES)
        ahead, behind = np.where(outcome == OUTCOMES["model_b"], (second, first), (first, second))
        won, lost = self._cell_of[ahead, behind], self._cell_of[behind, ahead]
        is_tie = outcome == OUTCOMES["tie"]
        tied = np.concatenate([won[is_tie], lost[is_tie]])
        self._ties += np.bincount(tied, minlength=self._ties.size)
        together = np.bincount(np.concatenate([won, lost[is_tie]]), minlength=1)
        self._widen(int(self._sums[:, 0].max()) + 2 * int(together.max()))
        hashes = self._hashes(part, first, second)
        add_battles(won, np.where(is_tie, lost, -1), hashes, self._tables, self._sums)
        self._add_prompts(hashes)

    def content(self) -> dict[str, Any]:
        """Return the models, and what a file keeps of them, equal for equal battles."""
        models, first, second, cells = self._cells()
        hashes = self._slots[self._slots != 0]
        return {
            "models": list(models),
            "pairs": np.stack([first, second], axis=1),
            "ties": self._ties[cells],
            "sums": self._sums[cells].astype(np.int64),
            "prompts": np.sort(hashes[: 0 if self.has_more_prompts else None]),
        }

    def add_content(self, content: Mapping[str, Any]) -> None:
        """Add what `content` returned for further battles.

        Raises:
            ValueError: If it is not what `content` returns.
        """
        models, pairs, ties, sums = (content[name] for name in ("models", "pairs", "ties", "sums"))
        shapes = [(len(ties), 2), (len(ties), 1 + self._resampling.n)]
        if [pairs.shape, sums.shape] != shapes or any(
            part.size and not 0 <= part.min() <= part.max() <= most
            for part, most in (
                (pairs, len(models) - 1),
                (ties, np.iinfo(np.int64).max // 2),
                (sums, np.iinfo(np.int64).max // 2),
            )
        ):
            raise ValueError("the counts are not of these models")
        self._place(models)
        first, second = np.array([self._place_of[name] for name in models])[pairs].reshape(-1, 2).T
        self._reserve(first, second)
        self._widen(int(self._sums[:, 0].max()) + int(sums[:, 0].max(initial=0)))
        cells = self._cell_of[first, second]
        self._ties[cells] += ties
        self._sums[cells] += sums.astype(self._sums.dtype)
        if not content["prompts"].size:
            self._n_prompts = MOST_PROMPTS + 1
        self._add_prompts(content["prompts"])

    def matches(self) -> Matches:
        """Return a match for each outcome of two models, which weighs how often it occurred.

        Models are sorted by name, and prompts are not told apart.
        """
        models, first, second, cells = self._cells()
        ties = self._ties[cells]
        wins = (self._sums[cells, 0].astype(np.int64) - ties) // 2
        is_tie = (first < second) & (ties > 0)
        rows = np.concatenate([np.flatnonzero(wins), np.flatnonzero(is_tie)])
        preference = np.repeat([1.0, 0.5], [np.count_nonzero(wins), np.count_nonzero(is_tie)])
        return Matches(
            entrants=models,
            prompts=("every prompt",),
            first=first[rows],
            second=second[rows],
            prompt_index=np.zeros(rows.size, dtype=np.int64),
            preference=preference,
            weight=np.concatenate([wins[wins > 0], ties[is_tie]]).astype(np.float64),
        )

    def resampled(self, confidence: float) -> ResampledWins:
        """Return what Bradley-Terry needs, models sorted by name."""
        models, first, second, cells = self._cells()

        def draw_from(start: int, n_tables: int) -> NDArray[np.float64]:
            wins = np.zeros((n_tables, len(models), len(models)))
            wins[:, first, second] = self._sums[cells, start : start + n_tables].T
            wins /= 2
            return wins

        def start() -> DrawWins:
            starts = [1]

            def draw(n_tables: int) -> NDArray[np.float64]:
                starts.append(starts[-1] + n_tables)
                return draw_from(starts[-2], n_tables)

            return draw

        resampling = Resampling(self._resampling.n, self._resampling.seed, confidence)
        return ResampledWins(models, draw_from(0, 1)[0], self.n_prompts, resampling, start)

    def _cells(self) -> tuple[tuple[str, ...], Any, Any, NDArray[np.int64]]:
        """Return the models, sorted, and of each cell the row, the column and the place."""
        models = self.models
        places = [self._place_of[name] for name in models]
        cells = self._cell_of[np.ix_(places, places)]
        first, second = np.nonzero(cells >= 0)
        return tuple(models), first, second, cells[first, second]

    def _place(self, models: Iterable[str]) -> None:
        """Give new models a place."""
        names = [name for name in dict.fromkeys(models) if name not in self._place_of]
        self._place_of.update(zip(names, range(len(self._place_of), 2**31), strict=False))
        self._names = np.concatenate([self._names, _hash_names(names)])
        n_before, n_needed = len(self._cell_of), len(self._place_of)
        if n_needed > n_before:
            size = 2 ** math.ceil(math.log2(n_needed))
            cell_of = np.full((size, size), -1, dtype=np.int64)
            cell_of[:n_before, :n_before] = self._cell_of
            self._cell_of = cell_of

    def _reserve(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
        """Give two models that meet a cell for the wins of each."""
        is_new = np.zeros(self._cell_of.shape, dtype=np.bool_)
        is_new[first, second] = is_new[second, first] = True
        is_new &= self._cell_of < 0
        n_new = int(np.count_nonzero(is_new))
        self._cell_of[is_new] = np.arange(self._n_cells, self._n_cells + n_new)
        self._n_cells += n_new
        if self._n_cells > len(self._sums):
            size = 2 ** math.ceil(math.log2(self._n_cells))
            self._ties = np.concatenate([self._ties, np.zeros(size - self._ties.size, np.int64)])
            # Zeros that nobody has touched take no memory, and a copy of them would.
            sums = np.zeros((size, self._sums.shape[1]), dtype=self._sums.dtype)
            sums[: len(self._sums)] = self._sums
            self._sums = sums

    def _widen(self, most: int) -> None:
        """See that all sums fit where a cell has so many halves of wins."""
        if most * _LARGEST_WEIGHT > np.iinfo(self._sums.dtype).max:
            is_small = most * _LARGEST_WEIGHT <= np.iinfo(np.int32).max
            self._sums = self._sums.astype(np.int32 if is_small else np.int64)

    def _hashes(
        self, part: pa.Table, first: NDArray[np.int64], second: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """Return the hash of every battle's prompt, shape (n_battles,).

        One without a prompt has a hash of its own, from all such battles of the file up to it.
        """
        column = part.column("question_id")
        hashes = hashes_of(column)
        if column.null_count:
            is_absent = column.is_null().to_numpy()
            met = self._names[first[is_absent]] * _STEP + self._names[second[is_absent]]
            chain = self._chain + np.cumsum(_mixed(met), dtype=np.uint64)
            numbers = np.arange(self._n_without, self._n_without + met.size, dtype=np.uint64)
            hashes[is_absent] = _mixed(chain + (numbers + np.uint64(1)) * _STEP)
            self._n_without, self._chain = self._n_without + met.size, chain[-1]
        return hashes

    def _add_prompts(self, hashes: NDArray[np.uint64]) -> None:
        if not self.has_more_prompts:
            self._n_prompts = collect_hashes(hashes, self._slots, self._n_prompts, MOST_PROMPTS)


_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # The finaliser of splitmix64, as in the kernel that hashes texts.
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def hashes_of(texts: pa.Array) -> NDArray[np.uint64]:
    """Return the 64-bit hash of every text, shape (n,); absent ones hash as empty ones."""
    if isinstance(texts, pa.ChunkedArray):
        texts = pa.concat_arrays(texts.chunks) if texts.num_chunks else pa.array([], pa.string())
    hashes = np.zeros(len(texts), dtype=np.uint64)
    _, offsets, content = texts.buffers()
    if len(texts):
        ends = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
        data = np.frombuffer(b"" if content is None else content, dtype=np.uint8)
        hash_texts(ends.astype(np.int64), data, hashes)
    return hashes


def _hash_names(names: Sequence[str]) -> NDArray[np.uint64]:
    """Hash texts as `hashes_of`, without PyArrow, which would load pandas to make a column."""
    content = [name.encode() for name in names]
    hashes = np.zeros(len(names), dtype=np.uint64)
    ends = np.cumsum([0, *map(len, content)])
    hash_texts(ends, np.frombuffer(b"".join(content), dtype=np.uint8), hashes)
    return hashes


def _random_tables(n_resamples: int, seed: int) -> NDArray[np.uint16]:
    """Return 16 random bits for every byte of a hash, its value and the resample.

    Shape (8, 256, n_resamples). Those of a resample do not depend on how many there are.
    """
    seeded = _hash_names([f"{SCHEME}, seed {seed}"])[0]
    # The generator splitmix64, begun at the seed.
    words = _mixed(seeded + np.arange(1, n_resamples * 512 + 1, dtype=np.uint64) * _STEP)
    quarters = words.astype("<u8").view("<u2").reshape(n_resamples, 8, 256)
    return np.ascontiguousarray(quarters.transpose(1, 2, 0).astype(np.uint16))


@dataclass(slots=True, eq=False)
class BattlePool:
    """The battles of files together: all of them while they are few, counts once they are many.

    Attributes:
        resampling: How many resamples there are, and the seed of the weights.
        preferences: Whether a preference finer than the winner shares the win, or is ignored.
        keeps: Whether battles that are counted are kept, too, in their order.
        counts_from: Once there are more battles than these they are counted; never if it is None.
        counts: By dimension, once the battles are counted; None is the dimension of those that
            name none.
        tallies: By dimension: battles, ties, inconsistent ones, those without a prompt, those with
            a weight, and those whose preference is finer than their winner.
        sources: Battles that people or models decided.
        left_out: Comparisons that are no battles, by the reason.
    """

    resampling: Resampling
    preferences: str
    keeps: bool = False
    counts_from: int | None = None
    counts: dict[str | None, BattleCounts] | None = None
    tallies: dict[str | None, Counter[str]] = field(default_factory=dict)
    sources: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    _parts: list[tuple[bool, pa.Table]] = field(default_factory=list)

    @property
    def n_battles(self) -> int:
        """How many battles there are, on all dimensions."""
        return sum(tally["battles"] for tally in self.tallies.values())

    @property
    def models(self) -> set[str]:
        """Everybody who fought."""
        sides = [name for counts in (self.counts or {}).values() for name in counts.models]
        for _, part in self._parts:
            sides += different_names(part, "model_a") + different_names(part, "model_b")
        return {*sides}

    @property
    def table(self) -> pa.Table | None:
        """All battles, file by file, unless only counts are kept."""
        if self.counts is not None and not self.keeps:
            return None
        return encode_battle_table(part for _, part in self._parts)

    def of(self, dimension: str | None) -> BattleCounts | None:
        """Return the counts of a dimension, once there are any."""
        return None if self.counts is None else self._of(dimension)

    def shares_wins(self, tally: Mapping[str, int]) -> bool:
        """Return whether some battle shares its win."""
        return self.preferences == "share" and tally["soft"] > 0

    def add(self, part: pa.Table, *, begins_file: bool) -> None:
        """Add battles, in the order of their files.

        Raises:
            UncountableError: If a battle is not won, lost or tied outright and has to be counted.
        """
        for source in pc.value_counts(part.column("source").cast(pa.string())).to_pylist():
            self.sources[source["values"]] += source["counts"]
        for dimension, rows in _by_dimension(part):
            self.tallies.setdefault(dimension, Counter()).update(_tally(rows))
        self._parts.append((begins_file, part))
        if self.counts_from is None or self.n_battles <= self.counts_from:
            return
        for tally in self.tallies.values():
            if self.shares_wins(tally) or tally["weighted"] or tally["sampled"]:
                raise UncountableError
        for is_first, each in self._parts if self.counts is None else self._parts[-1:]:
            self._count(each, begins_file=is_first)
        if not self.keeps:
            self._parts = []

    def _count(self, part: pa.Table, *, begins_file: bool) -> None:
        for counts in (self.counts or {}).values() if begins_file else ():
            counts.begin_file()
        for dimension, rows in _by_dimension(part):
            self._of(dimension).add(rows)

    def _of(self, dimension: str | None) -> BattleCounts:
        self.counts = {} if self.counts is None else self.counts
        if dimension not in self.counts:
            self.counts[dimension] = BattleCounts(self.resampling)
        return self.counts[dimension]

    def save(self, path: Path) -> None:
        """Write a new file of counts; equal battles give equal bytes, in whatever parts they came.

        Raises:
            InputError: If the file is there already or cannot be written.
        """
        counts = self.counts or {}
        contents = [
            (dimension, counts[dimension].content())
            for dimension in sorted(counts, key=lambda name: (name is None, name))
        ]
        header = {
            **self._terms,
            "sources": dict(sorted(self.sources.items())),
            "left_out": dict(sorted(self.left_out.items())),
            "dimensions": [
                {
                    "name": dimension,
                    "models": content["models"],
                    "tally": dict(sorted(self.tallies.get(dimension, Counter()).items())),
                }
                for dimension, content in contents
            ],
        }
        arrays = {
            f"{place}/{name}": content[name]
            for place, (_, content) in enumerate(contents)
            for name in _ARRAYS
        }
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        with new_file(path) as file:
            np.savez(file, header=text, **arrays)

    def add_file(self, path: Path) -> None:
        """Add the counts of a file.

        Raises:
            InputError: If it holds no counts, or of another scheme, seed or number of resamples.
        """
        try:
            with (
                open_input(path, most=MOST_ROWS_BYTES) as opened,
                np.load(opened, allow_pickle=False) as file,
            ):
                if any(each.compress_type for each in file.zip.infolist()):
                    raise ValueError("counts are written as they are, so that reading has bounds")
                header = json.loads(bytes(file["header"]).decode())
                problems = [
                    f"{path}: {name} is {header.get(name)!r}; expected {value!r}, so that the "
                    "counts can be added; count the battles again"
                    for name, value in self._terms.items()
                    if header.get(name) != value
                ]
                if problems:
                    raise InputError(problems)
                for place, named in enumerate(header["dimensions"]):
                    arrays = {name: file[f"{place}/{name}"] for name in _ARRAYS}
                    self._of(named["name"]).add_content({**named, **arrays})
                    self.tallies.setdefault(named["name"], Counter()).update(named["tally"])
                self.sources.update(header["sources"])
                self.left_out.update(header["left_out"])
        except (OSError, ValueError, KeyError, TypeError, IndexError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{path}: the file cannot be read as counts ({type(error).__name__}); expected "
                "one that --save-counts wrote"
            ) from None

    @property
    def _terms(self) -> dict[str, Any]:
        return {
            "scheme": SCHEME,
            "seed": self.resampling.seed,
            "resamples": self.resampling.n,
            "preferences": self.preferences,
        }


_ARRAYS = ("pairs", "ties", "sums", "prompts")


def _by_dimension(part: pa.Table) -> Iterator[tuple[str | None, pa.Table]]:
    """Yield the dimensions of battles, each with its own; a column that is absent says nothing."""
    names: list[str | None] = []
    n_without = part.num_rows
    if "dimension" in part.column_names:
        names += different_names(part, "dimension")
        n_without = part.column("dimension").null_count
    names += [None] if n_without else []
    for name in names:
        yield name, part if len(names) == 1 else of_dimension(part, name)


def _tally(part: pa.Table) -> dict[str, int]:
    """Return how many battles there are, and how many of each kind that is reported."""
    present = {name: part.column(name) for name in part.column_names}

    # A showing weighs as its verdict does, and a settled pair as many pairs as it stands for.
    is_settled = present["presentation"].is_null() if "presentation" in present else pa.scalar(True)

    def count(name: str, test: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> int:
        if name not in present:
            return 0
        return int(pc.sum(test(present[name]), min_count=0).as_py())

    return {
        "battles": part.num_rows,
        "ties": int(np.count_nonzero(name_codes(part, "winner", OUTCOMES) == OUTCOMES["tie"])),
        "inconsistent": count("inconsistent", lambda column: column),
        "without_prompt": present["question_id"].null_count,
        "weighted": count("weight", lambda column: pc.not_equal(column, 1.0)),
        "stopped": count("weight", lambda column: pc.and_(pc.not_equal(column, 1.0), is_settled)),
        "sampled": count("sample", lambda column: pc.not_equal(column, 1)),
        "soft": int(np.count_nonzero(finer_preferences(part))),
    }
