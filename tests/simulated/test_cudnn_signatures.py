"""Our binding of cuDNN is as NVIDIA declares it, and a difference is seen."""

from __future__ import annotations

import ctypes
from copy import deepcopy
from types import SimpleNamespace

import pytest

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cudnn, cudnn_layers
from tests.simulated import cudnn_headers, signatures
from tests.simulated.declarations import Declarations
from tests.simulated.recorded import Call, Library
from tests.simulated.test_signatures import passed_otherwise

LAYER = cudnn.Layer((2, 4, 9, 7), (6, 2, 3, 3), (2, 6, 9, 7), (1, 1), groups=2)
FILTERS = cudnn.FORWARD, cudnn.DATA, cudnn.FILTER


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    """Every place of the binding that calls the library."""
    library = Library()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cudnn, "load", lambda: library)
        on = cudnn.open_handle(library, 0x40)
        for name in cudnn.DIRECTIONS:
            made = cudnn.convolution(on, name, LAYER)
            for math in cudnn.MATHS:
                made.math(math)
            made.workspace(1)
            made.launch(1, (0x100, 0x200, 0x300), (0x400, 64))()
            made.searched((0x100, 0x200, 0x300), (0x400, 64))
            made.guessed()
        layers(on)
        with pytest.raises(Unavailable):
            on.check("a call", 3000)
        with pytest.raises(LaunchError):
            on.check("a call", 5000)
        on.api.cudnnGetVersion.restype = ctypes.c_size_t
        assert cudnn.kernel()[0] == "cuDNN 0.0.0"
    return library.calls


def layers(on: cudnn.Cudnn) -> None:
    """Every call of cudnn_layers."""
    x, y = ((cudnn.tensor(on, (2, 3, edge, edge)), 0x100 * edge) for edge in (4, 2))
    window, row = cudnn_layers.pooling(on, "max", 2, 2), cudnn_layers.of_channels(on, x[0])
    response = cudnn_layers.response(on, 5, 1e-4, 0.75, 2.0)
    pair = (0x900, 0xA00)
    adding, rectifier = cudnn_layers.adding(on), cudnn_layers.rectifier(on)
    states, mask = (0xB00, cudnn_layers.state_bytes(on)), (0xC00, cudnn_layers.mask_bytes(on, x[0]))
    dropping = cudnn_layers.dropping(on, 0.5, states, 1)
    for call in (
        cudnn_layers.pool(on, window, x, y),
        cudnn_layers.pool_gradient(on, window, y, y, x, x),
        cudnn_layers.normalize(on, x, x, row, pair, 1e-5, pair),
        cudnn_layers.normalize_frozen(on, x, x, row, pair, 1e-5, pair),
        cudnn_layers.normalize_gradient(on, x, x, x, row, 0x900, pair, 1e-5, pair),
        cudnn_layers.respond(on, response, x, x),
        cudnn_layers.respond_gradient(on, response, x, x, x, x),
        cudnn_layers.add(on, adding, x, x, x),
        cudnn_layers.rectify(on, rectifier, x, x),
        cudnn_layers.rectify_gradient(on, rectifier, x, x, x, x),
        cudnn_layers.bias_gradient(on, x, x),
        cudnn_layers.drop(on, dropping, x, x, mask),
        cudnn_layers.drop_gradient(on, dropping, x, x, mask),
    ):
        call()


@pytest.fixture
def told() -> Declarations:
    return deepcopy(cudnn_headers.kept())


def test_every_function_is_called_and_declared(calls: list[Call], told: Declarations) -> None:
    assert cudnn_headers.symbols() == {x.site.symbol for x in calls} == set(told.functions)
    assert len(told.functions) == 51


def test_every_call_is_as_declared(calls: list[Call], told: Declarations) -> None:
    assert signatures.wrong_calls(calls, told) == []


def test_every_argument_passed_otherwise_is_seen(calls: list[Call], told: Declarations) -> None:
    assert passed_otherwise(calls, told) == []


def test_every_number_is_nvidias(told: Declarations) -> None:
    theirs = {name: number for members in told.enums.values() for name, number in members.items()}
    assert {name: theirs[name] for name in cudnn_headers.numbers()} == cudnn_headers.numbers()
    for word, names in zip(("FWD", "BWD_DATA", "BWD_FILTER"), FILTERS, strict=True):
        assert theirs[f"CUDNN_CONVOLUTION_{word}_ALGO_COUNT"] == len(names)


def test_cudnn_without_a_device_is_unavailable() -> None:
    library = SimpleNamespace(cudnnCreate=lambda handle: 1001, cudnnGetErrorString=lambda status: b"NOT_INITIALIZED")
    with pytest.raises(Unavailable, match="cudnnCreate answers 1001: NOT_INITIALIZED"):
        cudnn.open_handle(library)


@pytest.mark.parametrize("word", ["Fwd", "BwdData", "BwdFilter"])
def test_a_row_of_algorithms_lies_as_nvidias(word: str, told: Declarations) -> None:
    theirs = told.structs[f"cudnnConvolution{word}AlgoPerf_t"]
    assert signatures.alike(cudnn.Perf, theirs)
    assert signatures._fields(cudnn.Perf) == signatures._fields(theirs)
