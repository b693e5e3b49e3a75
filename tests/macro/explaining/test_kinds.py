"""The column of a sample, by its symbol, module and span; and the rows that operations serve together."""

from __future__ import annotations

import pytest

from macro.explaining.kinds import joined, of_symbol
from macro.explaining.rows import OUTSIDE, called, groups, phase, together
from tests.macro.watched import KNOWN, NET

BLAS, TORCH = "/usr/lib/libscipy_openblas64_-32a4b2a6.so", "/usr/lib/torch/lib/libtorch_cpu.so"
LIBC, KERNEL = "/usr/lib/x86_64-linux-gnu/libc.so.6", "[kernel.kallsyms]"
NUMPY = "/usr/lib/python3.11/site-packages/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so"
OWN = "/home/a/kernels/{}-0123456789abcdef01234567.so"


@pytest.mark.parametrize(
    ("symbol", "module", "column"),
    [
        ("sgemm_kernel_HASWELL", BLAS, "gemm"),
        ("sgemm_incopy_HASWELL", BLAS, "packing"),
        ("sgemm_otcopy_HASWELL", BLAS, "packing"),
        ("exec_blas_async_wait", BLAS, "spin"),
        ("at::native::vectorized_loop2d<float>(char**, long const*)", TORCH, "element-wise"),
        ("at::native::log_softmax_lastdim_kernel_impl(at::Tensor const&)", TORCH, "softmax and loss"),
        ("at::native::direct_copy_kernel(at::TensorIterator&)", TORCH, "copy"),
        ("at::native::fill_kernel(at::TensorIterator&)", TORCH, "clear"),
        ("c10::TensorImpl::~TensorImpl()", TORCH, "dispatch"),
        ("torch::autograd::profiler::(anonymous namespace)::onFunctionExit<false>", TORCH, "tracer"),
        ("c10::SmallVectorImpl<at::StepCallbacks::StartEndPair>::operator=", TORCH, "tracer"),
        ("at::native::bernoulli_kernel(at::Tensor&)", TORCH, "random numbers"),
        ("jit_single_blk_kernel", "/tmp/perf-7.map", "layout reorder"),
        ("gomp_team_barrier_wait_end", "/usr/lib/libgomp.so.1", "spin"),
        ("FLOAT_multiply_X86_V3", NUMPY, "element-wise"),
        ("_contig_to_contig", NUMPY, "copy"),
        ("PyArray_TransferNDimToStrided", NUMPY, "copy"),
        ("raw_array_assign_array", NUMPY, "copy"),
        ("PyArray_NewFromDescr", NUMPY, "interpreter"),
        ("FLOAT_pairwise_sum", NUMPY, "reduction"),
        ("define_cast_for_descrs", NUMPY, "interpreter"),
        ("PyArray_CanCastArrayTo", NUMPY, "interpreter"),
        ("clone_combined_dict_keys", "/usr/lib/libpython3.11.so.1.0", "interpreter"),
        ("cfunction_call", "/usr/bin/python3.11", "interpreter"),
        ("__memmove_avx_unaligned_erms", LIBC, "copy"),
        ("__memset_avx512_unaligned_erms", LIBC, "clear"),
        ("_int_free", LIBC, "malloc"),
        ("__sched_yield", LIBC, "spin"),
        ("expf", "/usr/lib/x86_64-linux-gnu/libm.so.6", "element-wise"),
        ("fetestexcept", "/usr/lib/x86_64-linux-gnu/libm.so.6", "interpreter"),
        ("clear_page_erms", KERNEL, "OS memory"),
        ("exc_page_fault", KERNEL, "OS memory"),
        ("unmap_vmas", KERNEL, "OS memory"),
        ("__rcu_read_unlock", KERNEL, "OS memory"),  # on a fault's way through its control group
        ("pte_mkwrite", KERNEL, "OS memory"),
        ("down_read_trylock", KERNEL, "OS memory"),
        ("_raw_spin_unlock_irqrestore", KERNEL, "OS memory"),
        ("_raw_spin_trylock", KERNEL, "OS memory"),
        ("__list_del_entry_valid_or_report", KERNEL, "OS memory"),  # a free page taken off its list
        ("policy_nodemask", KERNEL, "OS memory"),
        ("some_new_kernel_function", KERNEL, "OS other"),
        ("vfs_write", KERNEL, "OS other"),
        ("tick_sched_timer", KERNEL, "OS other"),
        ("sched_balance_domains", KERNEL, "OS other"),
        ("futex_wait_queue", KERNEL, "spin"),
        ("futex_page_key", KERNEL, "spin"),
        ("finish_task_switch.isra.0", KERNEL, "spin"),
        ("asm_sysvec_apic_timer_interrupt", KERNEL, "OS other"),
        ("do_syscall_64", KERNEL, "OS other"),
        ("clock_gettime", "[vdso]", "OS other"),
        ("own", OWN.format("native"), "element-wise"),
        ("kernel", OWN.format("naive"), "gemm"),
        ("gemm_like", "/usr/lib/python3.11/site-packages/new.so", "gemm"),
        ("other", "/usr/lib/python3.11/site-packages/new.so", "unknown: new.so"),
        ("[unknown]", "[unknown]", "unknown: unknown"),
        ("[unknown]", "", "unknown: no module"),
    ],
)
def test_a_symbol_has_a_column(symbol: str, module: str, column: str) -> None:
    assert of_symbol(symbol, module) == column


@pytest.mark.parametrize(
    ("symbol", "span", "column"),
    [
        ("unknown: new.so", None, "unknown: new.so"),
        ("unknown: new.so", "optimizer", "optimizer"),
        ("unknown: new.so", "gemm", "gemm"),
        ("element-wise", "optimizer", "optimizer"),
        ("reduction", "gemm", "reduction"),  # a product's own bias is no product
        ("gemm", "optimizer", "gemm"),  # and a product in an update is one
        ("packing", "gemm", "packing"),
        ("OS memory", "element-wise", "OS memory"),
        ("malloc", "optimizer", "malloc"),
        ("dispatch", "optimizer", "dispatch"),
        ("dispatch", "convolution", "convolution"),  # as all that it calls
        ("gemm", "convolution", "convolution"),
        ("copy", "convolution", "layout reorder"),
        ("OS memory", "convolution", "OS memory"),
        ("interpreter", "data", "data"),
        ("unknown: new.so", "dispatch", "dispatch"),
        ("element-wise", "dispatch", "element-wise"),
        ("interpreter", "gemm", "interpreter"),
        ("copy", "optimizer", "copy"),
        ("element-wise", None, "element-wise"),
    ],
)
def test_a_span_overrules_symbols_of_work_alone(symbol: str, span: str | None, column: str) -> None:
    assert joined(symbol, span) == column


BATCH = NET.batch  # 16; layers of 6 × 5 and 5 × 3


def test_each_layer_has_its_rows_and_the_first_no_dgrad() -> None:
    names = list(KNOWN)
    roles = ("forward", "activation", "activation gradient", "wgrad", "bias gradient", "update")
    assert names[: len(roles)] == [f"fc1 {role}" for role in roles]
    assert "loss" in names and OUTSIDE in names
    assert "fc1 dgrad" not in KNOWN
    product = KNOWN["out dgrad"].product
    assert product is not None and (product.m, product.n, product.k) == (BATCH, 5, 3)
    assert {row.name for row in KNOWN.values() if row.product} == {
        "fc1 forward",
        "fc1 wgrad",
        "out forward",
        "out dgrad",
        "out wgrad",
    }


@pytest.mark.parametrize(
    ("role", "of"),
    [("activation", "forward"), ("bias gradient", "backward"), ("dgrad", "backward"), ("update", "update")],
)
def test_a_role_has_a_phase(role: str, of: str) -> None:
    assert phase(role) == KNOWN[f"{'fc1' if role == 'activation' else 'out'} {role}"].phase == of


def test_bytes_are_those_of_one_pass() -> None:
    outputs, weights = 4 * BATCH * 5, 4 * (6 * 5 + 5)
    assert KNOWN["fc1 activation"].bytes == 2 * outputs
    assert KNOWN["fc1 activation gradient"].bytes == 3 * outputs
    assert KNOWN["fc1 update"].bytes == 3 * weights  # read, read, write: no momentum here
    assert KNOWN["loss"].bytes == 2 * 4 * BATCH * 3


def test_what_one_operation_serves_is_one_group_through_all_spans() -> None:
    group = groups([["a", "b"], ["c"], ["d", "e"], ["b", "d"], []], {})
    assert set(group["a"]) == {"a", "b", "d", "e"}
    assert group["a"] == group["b"] == group["d"] == group["e"]
    assert group["c"] == ("c",)


def test_a_span_is_its_group_and_without_rows_outside() -> None:
    group = groups([["a", "b"]], {})
    assert together(["b"], group) == ("a", "b")
    assert together([], group) == (OUTSIDE,)
    assert together(["new"], group) == ("new",)


@pytest.mark.parametrize(
    ("members", "name"),
    [
        (["out update", "fc1 update"], "fc1, out update"),
        (["fc1 update", "fc1 wgrad"], "fc1 wgrad + update"),
        (["fc1 wgrad", "fc1 update", "out wgrad"], "fc1 wgrad + update; out wgrad"),
        (["loss", "out forward"], "out forward; loss"),
        ([OUTSIDE], OUTSIDE),
        (["a stranger", "fc1 forward"], "fc1 forward; a stranger"),
        (["fc1 forward", "fc1 forward"], "fc1 forward"),
    ],
)
def test_a_group_is_called_by_its_layers_and_roles(members: list[str], name: str) -> None:
    assert called(members, KNOWN) == name
