"""Changes of matrix products: preloaded libraries that change or replace MKL's; checks by samples.

MKL calls mkl_serv_intel_cpu_true and, if it returns 0 (a processor of another vendor), runs its AVX2 kernels even with
AVX-512; the preloaded function of that name returns 1. OpenBLAS and BLIS define sgemm_ in place of MKL's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from kernels.devices.cpu import vendor
from kernels.errors import SuiteError
from kernels.libs import openblas, preload
from macro.changes import _parts
from macro.changes.base import BaselineProfile, Change, Effect, ProcessSnapshot, Step

MKL = ("pytorch", "keras-torch")  # frameworks whose products are MKL's; PyTorch's x86-64 wheels contain MKL
RARE = 0.05  # a kernel family with a smaller share of the samples in products is ignored
VENDOR = "GenuineIntel"  # the vendor whose processors MKL is made for
TELLING = 5  # samples expected without the change, below which their absence is no evidence
CHANGED = {
    "mkl-intel": "MKL's dispatch is already changed, and MKL would no longer be used",
    "sgemm-openblas": "OpenBLAS already replaces MKL",
    "blis": "BLIS already replaces MKL",
}
KERNEL = re.compile(
    r"mkl_blas_(?P<set>\w+?)_(s|xs)gemm\w*|(?P<core>sgemm_kernel_\w+|sgemm_\w+kernel\w*)", re.IGNORECASE
)


def is_mkl(step: Step) -> str | None:
    """Return the reason why the step's products are not MKL's, or None."""
    if step.row.removesuffix("-compile") not in MKL:
        return f"the products of {step.framework.name} do not run in MKL"
    return None


def preloaded(
    name: str,
    word: str,
    about: str,
    took: Callable[[BaselineProfile, ProcessSnapshot], Effect],
    needless: Callable[[], str | None] = lambda: None,
) -> Change:
    """Return the change that preloads library `word` to change or replace MKL's products.

    `took` checks its effect once the library is mapped; `needless` returns why it has none on this machine, or None."""

    def shown(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
        if preload.missing([word], before.maps) is None:
            return Effect(False, f"{word} is mapped without the change, too")
        if preload.missing([word], after.maps):
            return Effect(False, f"{word} is not mapped")
        return took(before, after)

    return Change(
        name,
        about,
        lambda step, value: applies(step, word) or needless(),
        lambda step, value: step.with_library(word),
        shown,
        lambda asked: _parts.swapped(asked, "preload"),
        costs="the last bits of results",
        saves=_parts.HAVE_PRODUCTS,
        measures=(*_parts.PRODUCTS, *_parts.CELLS),
        memory=True,  # libraries and kernels differ in what they allocate
    )


def applies(step: Step, word: str) -> str | None:
    """Return the reason why preloading a library that changes MKL's products does not apply, or None."""
    loaded = (*preload.words(step.setting.preload), *preload.given())
    if word in loaded:
        return "already applied"
    return next((why for other, why in CHANGED.items() if other in loaded), None) or is_mkl(step) or absent(word)


def absent(word: str) -> str | None:
    """Return the reason why a library cannot be preloaded here, or None."""
    try:
        preload.variables(word)
    except SuiteError as error:
        return str(error)
    return None


def gone(before: BaselineProfile, after: ProcessSnapshot, functions: re.Pattern[str], named: str) -> Effect:
    """Check that no sample is in these functions any more, with enough samples for this to be evidence."""
    was, now = (sum(n for x, n in seen.symbols.items() if functions.search(x)) for seen in (before, after))
    all_before, all_now = (sum(seen.symbols.values()) for seen in (before, after))
    evidence = f"{was} of {all_before} samples in {named} before, {now} of {all_now} with the change"
    return Effect(not now and was * all_now >= TELLING * all_before, evidence)


def _families(symbols: Mapping[str, int], *groups: str) -> Counter[str]:
    """Count samples by family of BLAS kernels; `groups`: `set` (MKL's), `core` (OpenBLAS's), default both."""
    samples = Counter[str]()
    for symbol, count in symbols.items():
        if match := KERNEL.search(symbol):
            samples.update({match[group]: count for group in groups or ("set", "core") if match[group]})
    return samples


def _main(symbols: Mapping[str, int], *groups: str) -> tuple[str, ...]:
    """Return families with at least RARE of the samples, as rarer families show only in long recordings."""
    samples = _families(symbols, *groups)
    return tuple(sorted(name for name, count in samples.items() if count >= RARE * samples.total()))


def others(before: BaselineProfile, after: ProcessSnapshot, *groups: str) -> Effect:
    """Check that products run in other kernel families than before."""
    was, now = (_main(x.symbols, *groups) for x in (before, after))
    if not was or not now:
        return Effect(
            False, f"no product was sampled {'before' if not was else 'with the change'}, so its kernels are unknown"
        )
    evidence = f"products in {', '.join(was)} kernels before, in {', '.join(now)} with the change"
    return Effect(set(was) != set(now), evidence)


def _took_openblas(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    path = openblas.path("scipy")
    if path is None or path.name not in after.maps:  # NumPy's OpenBLAS is another file
        return Effect(False, "SciPy's OpenBLAS is not mapped, so it has served no sgemm_")
    if not _families(before.symbols, "set"):
        return Effect(False, "no product was sampled in MKL's kernels before, so the library is unknown")
    if left := sorted(_families(after.symbols, "set")):
        return Effect(False, f"SciPy's OpenBLAS is mapped, but products still run in MKL's {', '.join(left)} kernels")
    return Effect(True, "SciPy's OpenBLAS is mapped, so it has served an sgemm_")


def _took_blis(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    """Check that no sample is left in MKL's kernels, as BLIS's kernels have no symbols."""
    effect = gone(before, after, KERNEL, "MKL's kernels")
    return Effect(effect.there, f"BLIS is mapped; {effect.evidence}")


CHANGES = (
    preloaded(
        "mkl-dispatch",
        "mkl-intel",
        "MKL uses its kernels for Intel processors",
        lambda before, after: others(before, after, "set"),
        lambda: "MKL uses these kernels on Intel processors anyway" if vendor() == VENDOR else None,
    ),
    preloaded("openblas-shim", "sgemm-openblas", "OpenBLAS runs the products in place of MKL", _took_openblas),
    preloaded("blis-shim", "blis", "BLIS runs the products in place of MKL", _took_blis),
)
