"""What a product's row says it calls: by element type, and in PyTorch by what oneDNN logs."""

from __future__ import annotations

import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.libs import torch as torch_library
from kernels.ops.gemm.problem import Gemm
from kernels.setting import Setting

CALLS = [
    ("torch", "fp32", "nn", "NN = sgemm(N,N)"),
    ("torch", "bf16", "nn", "NN = torch.mm of bf16"),
    ("torch", "int8", "nt", "NT = torch._int_mm of int8"),
    ("cublas", "fp32", "nt", "NT = sgemm(T,N)"),
    ("cublas", "bf16", "nt", "NT = gemm(T,N) of bf16"),
    ("torch-cuda", "fp16", "nn", "NN = gemm(N,N) of fp16"),
]


@pytest.mark.parametrize(("variant", "dtype", "trans", "text"), CALLS)
def test_a_call_has_the_type_of_its_problem(variant: str, dtype: str, trans: str, text: str) -> None:
    call = find("gemm", variant).blas(Gemm(8, 8, 8, trans, dtype=dtype))
    assert call and call.partition(" m=")[0] == text


@pytest.mark.skipif(bool(torch_library.missing()), reason="without PyTorch")
@pytest.mark.parametrize(
    ("dtype", "log", "kernel", "isa"),
    [
        ("bf16", [("matmul", "brg_matmul:avx512_core_bf16")], "oneDNN brg_matmul:avx512_core_bf16", "avx512"),
        ("int8", [("gemm_api", "")], "oneDNN gemm_api", None),
        ("bf16", [], "kernel not logged by oneDNN", None),
    ],
)
def test_torch_names_the_kernel_of_a_type_by_its_log(
    monkeypatch: pytest.MonkeyPatch, dtype: str, log: list[tuple[str, str]], kernel: str, isa: str | None
) -> None:
    import torch

    monkeypatch.setattr(torch_library, "executed", lambda torch, call: call() is None or log)
    device, problem = open_device("cpu"), Gemm(8, 8, 8, dtype=dtype)
    bind = find("gemm", "torch").prepare(problem, device, Setting())
    views = [device.view(device.allocate(x.nbytes), 0, x) for x in problem.operands()]
    assert bind(views).kernel == (f"torch {torch.__version__}, {kernel}", isa)
