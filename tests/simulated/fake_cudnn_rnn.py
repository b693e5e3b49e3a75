"""cuDNN's recurrent layers by the suite's own float64 reference: weights, layouts, lengths and spaces are real.

Weights lie in their space as an algorithm has them: side by side, or each with padding in front of it and in reverse.
The reserve space holds what a pass leaves to the next: which pass it was, the inputs, dy, the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kernels.ops.recurrent.problem import GATES, Recurrent
from tests.simulated.fake_c import array
from tests.simulated.fake_cudnn_layers import Layers

CELLS, LAYOUTS, WORK = {1: "rnn", 2: "lstm", 3: "gru"}, {1: "tnc", 2: "ntc"}, 96
FORWARD, DATA = 7.0, 8.0  # what the first number of a reserve space says: the pass before
PADDING = 12  # numbers in front of each matrix and bias
Places = dict[tuple[str, int], tuple[int, tuple[int, ...]]]  # of matrices and biases by product: start and shape


@dataclass
class Operation:
    """What a descriptor was set to."""

    algorithm: int
    cell: str
    both: bool  # whether the products with the state have biases, too
    inputs: int
    hidden: int
    padded: bool

    def places(self) -> tuple[Places, int]:
        """Return where the weights lie, and how many numbers their space has."""
        gates, h, at = GATES[self.cell], self.hidden, 0
        shapes = {("matrix", i): (h, self.inputs if i < gates else h) for i in range(2 * gates)}
        shapes |= {("bias", i): (h,) for i in range((1 + self.both) * gates)}
        found: Places = {}
        for key in list(shapes)[:: -1 if self.algorithm else 1]:
            at += PADDING if self.algorithm else 0
            found[key] = at, shapes[key]
            at += int(np.prod(shapes[key]))
        return found, at

    def parts(self, space: np.ndarray) -> dict[tuple[str, int], np.ndarray]:
        """Return views of all matrices and biases."""
        places = self.places()[0].items()
        return {key: space[at : at + int(np.prod(shape))].reshape(shape) for key, (at, shape) in places}

    def weights(self, space: np.ndarray) -> dict[str, np.ndarray]:
        """Return the weights as operands of a problem, whose bias of r and z is the sum of both."""
        parts, gates = self.parts(space), GATES[self.cell]
        biases = [parts["bias", i] + (parts["bias", gates + i] if self.both and i < 2 else 0) for i in range(gates)]
        biases += [parts["bias", 2 * gates - 1]] if self.both else []
        w, r = (np.concatenate([parts["matrix", first + i] for i in range(gates)]) for first in (0, gates))
        return {"w": w, "r": r, "b": np.concatenate(biases)[None]}

    def add(self, space: np.ndarray, gradient: dict[str, np.ndarray]) -> None:
        """Add the gradients of a problem's weights to a space."""
        gates, h, b = GATES[self.cell], self.hidden, gradient["db"][0]
        for (kind, product), part in self.parts(space).items():
            gate = product % gates
            if kind == "matrix":
                part += gradient["dw" if product < gates else "dr"][gate * h : (gate + 1) * h]
            else:
                gate += self.both and product == 2 * gates - 1
                part += b[gate * h : (gate + 1) * h]


class Sequences(NamedTuple):
    """What a descriptor of inputs or outputs was set to."""

    layout: str
    steps: int
    batch: int
    features: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (*((self.steps, self.batch) if self.layout == "tnc" else (self.batch, self.steps)), self.features)


class Recurrences(Layers):
    """The functions of one recurrent layer in one direction."""

    def SetTensorNdDescriptor(self, x: Any) -> None:
        dims, strides = list(x.dimA), list(x.strideA)
        assert x.dataType == 0 and x.nbDims == len(dims) == 3
        assert strides == [dims[1] * dims[2], dims[2], 1]
        self.alive[x.tensorDesc].dims = tuple(dims)

    def SetRNNDescriptor_v8(self, x: Any) -> None:
        assert (x.dirMode, x.inputMode, x.dataType, x.mathPrec, x.numLayers) == (0, 0, 0, 0, 1)
        assert x.mathType == 3, "TF32 may be used"
        assert x.projSize == x.hiddenSize and self.alive[x.dropoutDesc].how[0] == 0
        words = (x.algo, CELLS[x.cellMode], {1: False, 2: True}[x.biasMode])
        self.alive[x.rnnDesc].how = Operation(*words, x.inputSize, x.hiddenSize, bool(x.auxFlags))

    def SetRNNDataDescriptor(self, x: Any) -> None:
        assert (x.dataType, list(x.seqLengthArray)) == (0, [x.maxSeqLength] * x.batchSize)
        how = Sequences(LAYOUTS[x.layout], x.maxSeqLength, x.batchSize, x.vectorSize)
        self.alive[x.rnnDataDesc].how = how

    def GetRNNWeightSpaceSize(self, x: Any) -> None:
        x.weightSpaceSize.value = 4 * self.alive[x.rnnDesc].how.places()[1]

    def GetRNNWeightParams(self, x: Any) -> None:
        places, count = self.alive[x.rnnDesc].how.places()
        assert (x.pseudoLayer, x.weightSpaceSize) == (0, 4 * count)
        self.reach(x.weightSpace, 4 * count)
        for kind, place in (("matrix", x.mAddr), ("bias", x.bAddr)):
            known = places.get((kind, x.linLayerID))
            place.value = x.weightSpace + 4 * known[0] if known else None

    def GetRNNTempSpaceSizes(self, x: Any) -> None:
        given = self.alive[x.xDesc].how
        x.workSpaceSize.value = WORK
        x.reserveSpaceSize.value = 4 * self._kept(self.alive[x.rnnDesc].how, given) if x.fwdMode else 0

    def _kept(self, how: Operation, given: Sequences) -> int:
        return 1 + given.steps * given.batch * (how.inputs + how.hidden) + how.places()[1]

    def _reserve(self, x: Any) -> Iterator[np.ndarray]:
        """Yield the parts of the reserve space: the pass before, inputs, dy, weights."""
        how, given, to = (self.alive[place].how for place in (x.rnnDesc, x.xDesc, x.yDesc))
        assert x.reserveSpaceSize == 4 * self._kept(how, given)
        space, at = array(self.reach, x.reserveSpace, np.float32, (x.reserveSpaceSize // 4,)), 0
        for shape in ((1,), given.shape, to.shape, (how.places()[1],)):
            yield space[at : at + int(np.prod(shape))].reshape(shape)
            at += int(np.prod(shape))

    def _operands(self, x: Any, space: int, *names: str) -> tuple[Operation, np.ndarray, list[np.ndarray]]:
        """Return the operation, a space of weights, and sequences by name, all of which must fit together."""
        how, given, to = (self.alive[place].how for place in (x.rnnDesc, x.xDesc, x.yDesc))
        assert (given.features, to.features) == (how.inputs, how.hidden)
        assert (given.layout, given.steps, given.batch) == (to.layout, to.steps, to.batch)
        assert how.padded == (given.layout == "ntc"), "padded layouts need the flag"
        for name in ("hDesc", "cDesc"):
            assert self.alive[getattr(x, name, x.hDesc)].dims == (1, given.batch, how.hidden)
        states = (getattr(x, name, 0) for name in ["hx", "hy", "dhy", "dhx", "cx", "cy", "dcy", "dcx"])
        assert not any(states) and x.weightSpaceSize == 4 * how.places()[1] and x.workSpaceSize == WORK
        self.reach(x.workSpace, WORK)
        shapes = {"x": given.shape, "y": to.shape}
        arrays = [array(self.reach, getattr(x, name), np.float32, shapes[name[-1]]) for name in names]
        return how, array(self.reach, space, np.float32, (x.weightSpaceSize // 4,)), arrays

    def RNNForward(self, x: Any) -> None:
        how, weights, (given, to) = self._operands(x, x.weightSpace, "x", "y")
        kept = list(self._reserve(x)) if x.fwdMode else []
        assert x.fwdMode or not x.reserveSpaceSize

        def answer() -> np.ndarray:
            if kept:
                kept[0][...], kept[1][...], kept[3][...] = FORWARD, given, weights
            return self._solved(x, how, given, weights)["y"]

        self._enqueue(x, to, answer)

    def RNNBackwardData_v8(self, x: Any) -> None:
        how, weights, (y, dy, to) = self._operands(x, x.weightSpace, "y", "dy", "dx")
        before, given, slope, of_weights = self._reserve(x)

        def answer() -> np.ndarray:
            assert before[0] == FORWARD and np.array_equal(weights, of_weights, equal_nan=True)
            before[...], slope[...] = DATA, dy
            solved = self._solved(x, how, given, weights, slope)
            assert np.allclose(y, solved["y"], atol=1e-3, equal_nan=True)
            return solved["dx"]

        self._enqueue(x, to, answer)

    def RNNBackwardWeights_v8(self, x: Any) -> None:
        assert x.addGrad == 0, "cuDNN has no other mode here"
        how, gradient, (given, y) = self._operands(x, x.dweightSpace, "x", "y")
        before, same, slope, weights = self._reserve(x)

        def answer() -> np.ndarray:
            assert before[0] == DATA and np.array_equal(given, same, equal_nan=True)
            solved = self._solved(x, how, given, weights, slope)
            assert np.allclose(y, solved["y"], atol=1e-3, equal_nan=True)
            how.add(gradient, solved)
            return gradient

        self._enqueue(x, gradient, answer)

    def _solved(
        self, x: Any, how: Operation, given: np.ndarray, weights: np.ndarray, dy: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        layout, steps, batch, inputs = self.alive[x.xDesc].how
        assert (array(self.reach, x.devSeqLengths, np.int32, (batch,)) == steps).all()
        problem = Recurrent(steps, batch, inputs, how.hidden, how.cell, layout, "forward" if dy is None else "step")
        with np.errstate(all="ignore"):  # of the numbers of a trial
            return problem.reference({"x": given, **how.weights(weights), **({} if dy is None else {"dy": dy})})
