"""Bradley-Terry with resampled prompts, as one would write it for a single file: numpy and pyarrow.

`python benchmarks/plain_rating.py FILE N` prints everybody's rating and interval.
"""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

COLUMNS = ["model_a", "model_b", "winner", "question_id"]


def main(path: str, n_resamples: int) -> None:
    """Rate a Parquet file."""
    table = pq.read_table(path, columns=COLUMNS)
    names = sorted({*table["model_a"].unique().to_pylist(), *table["model_b"].unique().to_pylist()})
    first, second = code(table["model_a"], names), code(table["model_b"], names)
    share = np.array([1.0, 0.0, 0.5])[code(table["winner"], ["model_a", "model_b", "tie"])]
    prompt = np.asarray(table["question_id"].dictionary_encode().combine_chunks().indices)
    n, n_prompts = len(names), int(prompt.max()) + 1

    def count(weight: NDArray[np.float64]) -> NDArray[np.float64]:
        won = np.bincount(first * n + second, weight * share, n * n)
        lost = np.bincount(second * n + first, weight * (1 - share), n * n)
        return np.asarray((won + lost).reshape(n, n), dtype=np.float64)

    strengths = fit(count(np.ones(len(first))), np.zeros(n))
    generator = np.random.default_rng(0)
    resamples = []
    for _ in range(n_resamples):
        drawn = generator.integers(n_prompts, size=n_prompts)
        weight = np.bincount(drawn, minlength=n_prompts)[prompt].astype(np.float64)
        resamples.append(fit(count(weight), strengths))
    low, high = np.percentile(resamples, [2.5, 97.5], axis=0)
    for place in np.argsort(-strengths):
        points = 400 / np.log(10) * np.array([strengths[place], low[place], high[place]]) + 1400
        print(names[place], *np.round(points))


def code(column: pa.ChunkedArray, names: list[str]) -> NDArray[np.int64]:
    """Replace names by their places."""
    place = {name: index for index, name in enumerate(names)}
    encoded = column.dictionary_encode().combine_chunks()
    places = np.array([place[name] for name in encoded.dictionary.to_pylist()])
    return np.asarray(places[np.asarray(encoded.indices)])


def fit(wins: NDArray[np.float64], strengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Maximise the likelihood by Newton's method."""
    matches = wins + wins.T
    for _ in range(50):
        share = 1 / (1 + np.exp(strengths[None] - strengths[:, None]))
        curvature = matches * share * (1 - share)
        hessian = np.diag(curvature.sum(axis=1)) - curvature + curvature.mean()
        step = np.linalg.solve(hessian, wins.sum(axis=1) - (matches * share).sum(axis=1))
        strengths = strengths + step
        if np.abs(step).max() < 1e-9:
            break
    return np.asarray(strengths - strengths.mean())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
