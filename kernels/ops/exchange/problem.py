"""Microbenchmarks of data exchange between threads of a GPU, with almost no arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernels.errors import UsageError
from kernels.lazy import np
from kernels.problem import Array, Arrays, Operand, Problem, axis

THREADS = 1024  # threads of a block (one block per multiprocessor), and words of its shared memory
WARP = 32
DISTANCES = (1, 2, 4, 8, 16)  # between the lanes of a warp that swap, in turn
MOST = 7  # largest number in the input
EXACT = 1 << 24  # whole numbers up to here are exact in float32, in whatever order they are added
HOW = ("load", "shuffle", "add-shared", "add-global")


@dataclass(frozen=True)
class Exchange(Problem):
    """Exchange of words between threads of a GPU, by one of the ways in `how`.

    All numbers are small integers, so that each sum is exact: an error of one step or one word shows.
    """

    op: ClassVar[str] = "exchange"
    within: ClassVar[bool] = True

    # load: a lane reads successive words of shared memory, its neighbor `spread` words further; lanes in the same
    # bank conflict. shuffle: lanes of a warp swap their values and add 1. add-shared, add-global: threads
    # add atomically to `spread` words, neighbors to neighboring words, in the block's shared or in global memory.
    how: str = axis("operation", choices=HOW)
    spread: int = axis("load: word stride between lanes; add: number of target words", 1, low=0)
    steps: int = axis("operations per thread", 1024, low=1)
    processors: int = axis("multiprocessors used", 1, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        words = {"load": WARP, "shuffle": 1, "add-shared": THREADS, "add-global": self.threads}[self.how]
        if self.spread > words or (self.spread == 0 and self.how != "load"):
            raise UsageError(f"--spread {self.spread}: {self.how} allows {0 if self.how == 'load' else 1} to {words}")
        if self.steps * self.crowd >= EXACT:
            raise UsageError(f"--steps {self.steps}: times {self.crowd} threads per word must stay below {EXACT}")

    @property
    def threads(self) -> int:
        """Threads of all blocks."""
        return THREADS * self.processors

    @property
    def crowd(self) -> int:
        """Largest number of threads that add to one word."""
        if not self.how.startswith("add"):
            return 1
        return -(-(self.threads if self.how == "add-global" else THREADS) // self.spread)

    @property
    def bytes(self) -> float:
        """Bytes exchanged: one word for each thread and step."""
        return 4.0 * self.threads * self.steps

    def operands(self) -> tuple[Operand, ...]:
        words = {"add-shared": (self.processors, self.spread), "add-global": (1, self.spread)}
        shape = (self.processors, THREADS)
        return Operand("x", shape, "in", drawn_by_index=True), Operand("y", words.get(self.how, shape), "out")

    def indices(self, x: Operand, rng: np.random.Generator) -> Array:
        """Return small integers, whose sums are exact; the timed data has them too."""
        most = min(MOST, EXACT // (self.steps * self.crowd))
        return rng.integers(0, most, x.shape, endpoint=True).astype(np.float32)

    def reference(self, x: Arrays) -> dict[str, Array]:
        given = x["x"].astype(np.float64)
        if self.how == "load":
            return {"y": self._loaded(given)}
        if self.how == "shuffle":
            far = 0
            for i in range(self.steps % (2 * len(DISTANCES))):  # after two turns each value is back in its lane
                far ^= DISTANCES[i % len(DISTANCES)]
            return {"y": given[:, np.arange(THREADS) ^ far] + self.steps}
        sums = np.zeros(self.operands()[1].shape)
        rows = given if self.how == "add-shared" else given.reshape(1, -1)
        for first in range(0, rows.shape[1], self.spread):
            words = rows[:, first : first + self.spread]
            sums[:, : words.shape[1]] += words
        return {"y": self.steps * sums}

    def _loaded(self, given: Array) -> Array:
        """Return each thread's sum of `steps` successive words from its first word on, cyclically."""
        thread = np.arange(THREADS)
        first = (thread % WARP * self.spread + thread // WARP * WARP) % THREADS
        turns, rest = divmod(self.steps, THREADS)
        before = np.concatenate([np.zeros((len(given), 1)), np.cumsum(np.tile(given, 2), axis=1)], axis=1)
        summed: Array = turns * given.sum(axis=1, keepdims=True) + before[:, first + rest] - before[:, first]
        return summed
