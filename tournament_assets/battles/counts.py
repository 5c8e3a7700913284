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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tournament_assets.battles.columns import different_names, name_codes, of_dimension
from tournament_assets.battles.count_kernels import (
    add_battles,
    chain_hashes,
    collect_hashes,
    hash_texts,
    mark_hashes,
)
from tournament_assets.battles.files import new_file
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.foundation.input_files import MOST_ROWS_BYTES, open_input
from tournament_assets.ratings.bradley_terry import DrawWins, ResampledWins

MANY_BATTLES = 65_536
"""Files with more battles than these are counted unless a run wrote them."""

SCHEME = "poisson by prompt, 1"
"""Names how weights follow from prompts; a change of any of them needs another number."""

_EXACT_PROMPTS = 65_536
_SLOTS, _MARKS = 2**18, 2**24
_LARGEST_WEIGHT = 8
_FIRST_MODELS, _FIRST_CELLS = 64, 4_096
_OUTCOMES = {"model_a": 0, "model_b": 1, "tie": 2, "tie (bothbad)": 2}
_TALLIES = ("battles", "ties", "inconsistent", "without_prompt", "soft")


class UncountableError(Exception):
    """Battles with shares of a win, weights or several samples of a prompt, which are no counts."""


class _Prompts:
    """Which prompts occurred: hashes up to 65,536, then marks, from which the number is estimated.

    16 million marks give the number of 10 million prompts to a fifty-hundredth of a percent:
    Whang, Vander-Zanden and Taylor, "A linear-time probabilistic counting algorithm",
    https://doi.org/10.1145/78922.78925.
    """

    def __init__(self) -> None:
        self._slots = np.zeros(_SLOTS, dtype=np.uint64)
        self._n_exact = 0
        self._marks = np.zeros(0, dtype=np.bool_)

    @property
    def is_exact(self) -> bool:
        return not self._marks.size

    def __len__(self) -> int:
        if self.is_exact:
            return self._n_exact
        n_free = max(1, _MARKS - int(np.count_nonzero(self._marks)))
        return round(-_MARKS * math.log(n_free / _MARKS))

    def add(self, hashes: NDArray[np.uint64]) -> None:
        if self.is_exact:
            self._n_exact = collect_hashes(hashes, self._slots, self._n_exact, _EXACT_PROMPTS)
            if self._n_exact <= _EXACT_PROMPTS:
                return
            self._marks = np.zeros(_MARKS, dtype=np.bool_)
            mark_hashes(self._slots[self._slots != 0], self._marks)
        mark_hashes(hashes, self._marks)

    def content(self) -> NDArray[Any]:
        """Return what a file keeps: the hashes in their order, or the marks, eight in a byte."""
        return np.sort(self._slots[self._slots != 0]) if self.is_exact else np.packbits(self._marks)

    def add_content(self, content: NDArray[Any]) -> None:
        if content.dtype == np.uint64:
            self.add(content)
            return
        if self.is_exact:
            self._marks = np.zeros(_MARKS, dtype=np.bool_)
            mark_hashes(self._slots[self._slots != 0], self._marks)
        self._marks |= np.unpackbits(content).astype(np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class CountTables:
    """What the counts of one dimension say, models sorted by name; shape (n, n) each.

    Attributes:
        met: How often two met, symmetric.
        points: Wins of the row's model over the column's, ties as halves.
        won: Wins alone.
    """

    models: tuple[str, ...]
    met: NDArray[np.float64]
    points: NDArray[np.float64]
    won: NDArray[np.float64]


class BattleCounts:
    """The battles of one dimension, counted.

    Attributes:
        tally: Battles, ties, inconsistent ones, those without a prompt, and those whose preference
            is finer than the winner that counted instead.
    """

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
        self._totals = np.zeros((_FIRST_CELLS, 2), dtype=np.int64)
        self._sums = np.zeros((_FIRST_CELLS, resampling.n), dtype=np.int32)
        self._prompts = _Prompts()
        self._chain = np.uint64(0)
        self.tally: Counter[str] = Counter()

    @property
    def n_prompts(self) -> int:
        """How many different prompts there were; beyond 65,536 to a part in a thousand."""
        return len(self._prompts)

    @property
    def knows_prompts(self) -> bool:
        """Whether the number of prompts is exact."""
        return self._prompts.is_exact

    def begin_file(self) -> None:
        """Let battles without a prompt depend on nothing before them."""
        self._chain = np.uint64(0)

    def add(self, part: pa.Table, *, shares: bool) -> None:
        """Count battles.

        Args:
            part: All of one dimension; columns of `BATTLE_SCHEMA` that say nothing may be absent.
            shares: Whether a preference finer than the winner would share the win.

        Raises:
            UncountableError: If a battle has a weight, another sample than the first, or such a
                preference.
        """
        n_battles = part.num_rows
        outcome = name_codes(part, "winner", _OUTCOMES)
        present = {name: part.column(name) for name in part.column_names}
        n_soft = 0
        if "pref" in present and present["pref"].null_count < n_battles:
            values = present["pref"].to_numpy()
            share = np.array([0.0, 1.0, 0.5])[outcome]
            n_soft = int(np.count_nonzero(~np.isnan(values) & (values != share)))
        is_plain = all(
            pc.all(pc.equal(present[name], 1), min_count=0).as_py()
            for name in {"weight", "sample"} & {*present}
        )
        if not is_plain or (shares and n_soft):
            raise UncountableError
        self._place(different_names(part, "model_a") + different_names(part, "model_b"))
        first, second = (name_codes(part, side, self._place_of) for side in ("model_a", "model_b"))
        hashes = self._hashes(part, first, second)
        is_won_by_second, is_tie = outcome == 1, outcome == 2
        ahead, behind = np.where(is_won_by_second, (second, first), (first, second))
        self._reserve(
            np.concatenate([ahead, behind[is_tie]]), np.concatenate([behind, ahead[is_tie]])
        )
        tied = np.where(is_tie, self._cell_of[behind, ahead], -1)
        add_battles(
            self._cell_of[ahead, behind], tied, hashes, self._tables, self._totals, self._sums
        )
        self._prompts.add(hashes)
        counts = (
            n_battles,
            int(np.count_nonzero(is_tie)),
            int(pc.sum(present["inconsistent"], min_count=0).as_py())
            if "inconsistent" in present
            else 0,
            present["question_id"].null_count,
            n_soft,
        )
        self.tally.update(dict(zip(_TALLIES, counts, strict=True)))

    def content(self) -> dict[str, Any]:
        """Return the models, and what a file keeps of them, equal for equal battles."""
        models = sorted(self._place_of)
        places = [self._place_of[name] for name in models]
        cells = self._cell_of[np.ix_(places, places)]
        pairs = np.argwhere(cells >= 0)
        order = cells[cells >= 0]
        return {
            "models": models,
            "tally": {name: self.tally[name] for name in _TALLIES},
            "pairs": pairs,
            "totals": self._totals[order],
            "sums": self._sums[order],
            "prompts": self._prompts.content(),
        }

    def add_content(self, content: Mapping[str, Any]) -> None:
        """Add what `content` returned for further battles.

        Raises:
            ValueError: If it is not what `content` returns.
        """
        pairs, sums = content["pairs"], content["sums"]
        n_models, n_pairs = len(content["models"]), len(content["totals"])
        is_whole = pairs.shape == (n_pairs, 2) and sums.shape == (n_pairs, self._resampling.n)
        if not is_whole or any(
            part.size and not 0 <= part.min() <= part.max() <= most
            for part, most in (
                (pairs, n_models - 1),
                (content["totals"], np.iinfo(np.int64).max // 2),
                (sums, np.iinfo(np.int64).max // 2),
            )
        ):
            raise ValueError("the counts are not of these models")
        self._place(content["models"])
        places = np.array([self._place_of[name] for name in content["models"]], dtype=np.int64)
        first, second = places[content["pairs"]].reshape(-1, 2).T
        totals = content["totals"]
        self._reserve(first, second, n_halves=int(totals[:, 0].sum()))
        cells = self._cell_of[first, second]
        self._totals[cells] += totals
        self._sums[cells] += content["sums"].astype(self._sums.dtype)
        self._prompts.add_content(content["prompts"])
        self.tally.update(content["tally"])

    def tables(self) -> CountTables:
        """Return the battles of every two models."""
        models, first, second, cells = self._cells()
        points, ties = np.zeros((2, len(models), len(models)))
        points[first, second] = self._totals[cells, 0] / 2
        ties[first, second] = self._totals[cells, 1]
        return CountTables(models, points + points.T, points, points - ties / 2)

    def resampled(self, confidence: float) -> ResampledWins:
        """Return what Bradley-Terry needs, models sorted by name."""
        tables = self.tables()
        models, first, second, cells = self._cells()

        def start() -> DrawWins:
            drawn = 0

            def draw(n_tables: int) -> NDArray[np.float64]:
                nonlocal drawn
                wins = np.zeros((n_tables, len(models), len(models)))
                wins[:, first, second] = self._sums[cells, drawn : drawn + n_tables].T
                wins /= 2
                drawn += n_tables
                return wins

            return draw

        resampling = Resampling(self._resampling.n, self._resampling.seed, confidence)
        return ResampledWins(models, tables.points, self.n_prompts, resampling, start)

    def _cells(self) -> tuple[tuple[str, ...], Any, Any, NDArray[np.int64]]:
        """Return the models, sorted, and of each cell the row, the column and the place."""
        models = sorted(self._place_of)
        places = [self._place_of[name] for name in models]
        cells = self._cell_of[np.ix_(places, places)]
        first, second = np.nonzero(cells >= 0)
        return tuple(models), first, second, cells[first, second]

    def _place(self, models: Iterable[str]) -> None:
        """Give new models a place."""
        names = [name for name in dict.fromkeys(models) if name not in self._place_of]
        if not names:
            return
        self._place_of.update(zip(names, range(len(self._place_of), 2**31), strict=False))
        self._names = np.concatenate([self._names, _hash_names(names)])
        n_before, n_needed = len(self._cell_of), len(self._place_of)
        if n_needed > n_before:
            size = 2 ** math.ceil(math.log2(n_needed))
            cell_of = np.full((size, size), -1, dtype=np.int64)
            cell_of[:n_before, :n_before] = self._cell_of
            self._cell_of = cell_of

    def _reserve(
        self, first: NDArray[np.int64], second: NDArray[np.int64], n_halves: int | None = None
    ) -> None:
        """Give a cell to each first model's wins over the second, and see that all sums fit."""
        is_wanted = np.zeros(self._cell_of.shape, dtype=np.bool_)
        is_wanted[first, second] = True
        is_wanted &= self._cell_of < 0
        n_new = int(np.count_nonzero(is_wanted))
        self._cell_of[is_wanted] = np.arange(self._n_cells, self._n_cells + n_new)
        self._n_cells += n_new
        if self._n_cells > len(self._totals):
            n_more = 2 ** math.ceil(math.log2(self._n_cells)) - len(self._totals)
            self._totals = np.concatenate([self._totals, np.zeros((n_more, 2), dtype=np.int64)])
            # Zeros that nobody has touched take no memory, and a copy of them would.
            sums = np.zeros((len(self._totals), self._resampling.n), dtype=self._sums.dtype)
            sums[: len(self._sums)] = self._sums
            self._sums = sums
        highest = int(self._totals[:, 0].max()) + (2 * first.size if n_halves is None else n_halves)
        if highest * _LARGEST_WEIGHT > np.iinfo(self._sums.dtype).max:
            self._sums = self._sums.astype(np.int64)

    def _hashes(
        self, part: pa.Table, first: NDArray[np.int64], second: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        column = part.column("question_id").combine_chunks()
        hashes = hashes_of(column)
        if column.null_count:
            is_absent = column.is_null().to_numpy(zero_copy_only=False)
            self._chain = np.uint64(
                chain_hashes(is_absent, first, second, self._names, hashes, self._chain)
            )
        return hashes


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
    words = np.arange(n_resamples * 512, dtype=np.uint64)
    seeded = _hash_names([f"{SCHEME}, seed {seed}"])[0]
    # The generator splitmix64, begun at the seed.
    words = seeded + (words + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    quarters = words.astype("<u8").view("<u2").reshape(n_resamples, 8, 256)
    return np.ascontiguousarray(quarters.transpose(1, 2, 0).astype(np.uint16))


@dataclass(frozen=True, slots=True, eq=False)
class CountedBattles:
    """Battles of files, counted by dimension; None is the dimension of those that name none.

    Attributes:
        resampling: How many resamples, and the seed of the weights.
        preferences: Whether a preference would share a win, or is ignored.
        sources: Battles that people or models decided.
        left_out: Comparisons that are no battles, by the reason.
    """

    resampling: Resampling
    preferences: str
    by_dimension: dict[str | None, BattleCounts] = field(default_factory=dict)
    sources: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def n_battles(self) -> int:
        """How many battles there are, on all dimensions."""
        return sum(counts.tally["battles"] for counts in self.by_dimension.values())

    @property
    def models(self) -> set[str]:
        """Everybody who fought."""
        return {name for each in self.by_dimension.values() for name in each.tables().models}

    def add_all(self, parts: Iterable[tuple[bool, pa.Table]]) -> None:
        """Count battles, in the order of their files.

        Args:
            parts: Whether a file begins, and battles of it.

        Raises:
            UncountableError: If a battle is not won, lost or tied outright.
        """
        for begins_file, part in parts:
            if begins_file:
                for counts in self.by_dimension.values():
                    counts.begin_file()
            self._add(part)

    def _add(self, part: pa.Table) -> None:
        for source in pc.value_counts(part.column("source").cast(pa.string())).to_pylist():
            self.sources[source["values"]] += source["counts"]
        names: list[str | None] = []
        has_others = part.num_rows
        if "dimension" in part.column_names:
            names += different_names(part, "dimension")
            has_others = part.column("dimension").null_count
        for dimension in [*names, *([None] if has_others else [])]:
            is_all = len(names) + bool(has_others) == 1
            self._of(dimension).add(
                part if is_all else of_dimension(part, dimension),
                shares=self.preferences == "share",
            )

    def _of(self, dimension: str | None) -> BattleCounts:
        if dimension not in self.by_dimension:
            self.by_dimension[dimension] = BattleCounts(self.resampling)
        return self.by_dimension[dimension]

    def save(self, path: Path) -> None:
        """Write a new file of counts; equal battles give equal bytes, in whatever parts they came.

        Raises:
            InputError: If the file is there already or cannot be written.
        """
        contents = [
            (dimension, self.by_dimension[dimension].content())
            for dimension in sorted(self.by_dimension, key=lambda name: (name is None, name))
        ]
        header = {
            **self._terms,
            "sources": dict(sorted(self.sources.items())),
            "left_out": dict(sorted(self.left_out.items())),
            "dimensions": [
                {"name": dimension, "models": content["models"], "tally": content["tally"]}
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


_ARRAYS = ("pairs", "totals", "sums", "prompts")
