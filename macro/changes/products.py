"""Products by library, from the functions of samples, and preloaded libraries that change or replace MKL's.

On a processor of another vendor than its own, MKL calls mkl_serv_intel_cpu_true and, where it returns 0, takes its AVX2
kernels even where AVX-512 is there; a function of that name that returns 1 is preloaded. OpenBLAS and BLIS have a
sgemm_ in place of MKL's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from kernels.devices.cpu import vendor
from kernels.errors import SuiteError
from kernels.libs import openblas, preload
from macro.changes import _parts
from macro.changes.base import FUNCTIONS, BaselineProfile, Change, Effect, ProcessSnapshot, Step

MKL = ("pytorch", "keras-torch")  # rows whose products are MKL's; the wheels of PyTorch have it inside, on x86-64
RARE = 0.05  # of the samples in products: a family with fewer is ignored
VENDOR = "GenuineIntel"  # MKL's own
TELLING = 5  # samples that would be there if nothing had changed
CHANGED = {
    "mkl-intel": "MKL's dispatch is changed, and MKL would multiply no more",
    "sgemm-openblas": "OpenBLAS multiplies, not MKL",
    "blis": "BLIS multiplies, not MKL",
}
KERNEL = re.compile(
    r"mkl_blas_(?P<set>\w+?)_(s|xs)gemm\w*|(?P<core>sgemm_kernel_\w+|sgemm_\w+kernel\w*)", re.IGNORECASE
)


def is_mkl(step: Step) -> str | None:
    """Return the reason why the step's products are not MKL's, or None."""
    if step.row.removesuffix("-compile") not in MKL:
        return f"the products of {step.framework.name} are not MKL's"
    return None


def preloaded(
    name: str,
    word: str,
    about: str,
    took: Callable[[BaselineProfile, ProcessSnapshot], Effect],
    needless: Callable[[], str | None] = lambda: None,
) -> Change:
    """Return the change that preloads a library which changes MKL's products.

    `took` is called where the library is mapped; `needless` returns why it changes nothing on this machine."""

    def shown(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
        if preload.missing([word], before.maps) is None:
            return Effect(False, f"{word} is mapped without it too")
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
        measures=_parts.PRODUCTS,
        looks=(FUNCTIONS,),
    )


def applies(step: Step, word: str) -> str | None:
    """Return the reason why a library that changes MKL's products cannot be preloaded, or None."""
    loaded = (*preload.words(step.setting.preload), *preload.given())
    if word in loaded:
        return "it is made already"
    return next((why for other, why in CHANGED.items() if other in loaded), None) or is_mkl(step) or absent(word)


def absent(word: str) -> str | None:
    """Return the reason why a library cannot be preloaded here, or None."""
    try:
        preload.variables(word)
    except SuiteError as error:
        return str(error)
    return None


def gone(before: BaselineProfile, after: ProcessSnapshot, functions: re.Pattern[str], named: str) -> Effect:
    """Check that no sample is in these functions any more, where as many as there were would show."""
    was, now = (sum(n for x, n in seen.symbols.items() if functions.search(x)) for seen in (before, after))
    all_before, all_now = (sum(seen.symbols.values()) for seen in (before, after))
    evidence = f"{was} of {all_before} samples in {named} before, {now} of {all_now} with it"
    return Effect(not now and was * all_now >= TELLING * all_before, evidence)


def _families(symbols: Mapping[str, int], *groups: str) -> Counter[str]:
    """Count the samples of each family of BLAS kernels: MKL's `set`, OpenBLAS's `core`, or both."""
    samples = Counter[str]()
    for symbol, count in symbols.items():
        if match := KERNEL.search(symbol):
            samples.update({match[group]: count for group in groups or ("set", "core") if match[group]})
    return samples


def _main(symbols: Mapping[str, int], *groups: str) -> tuple[str, ...]:
    """Return the families with at least RARE of the samples: rarer ones show in long recordings alone."""
    samples = _families(symbols, *groups)
    return tuple(sorted(name for name, count in samples.items() if count >= RARE * samples.total()))


def others(before: BaselineProfile, after: ProcessSnapshot, *groups: str) -> Effect:
    """Check that products run in other kernels than before."""
    was, now = (_main(x.symbols, *groups) for x in (before, after))
    if not was or not now:
        return Effect(
            False, f"no product was seen {'before' if not was else 'with it'}, so nothing shows which kernels run"
        )
    evidence = f"products in {', '.join(was)} kernels before, in {', '.join(now)} with it"
    return Effect(set(was) != set(now), evidence)


def _took_openblas(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    path = openblas.path("scipy")
    if path is None or path.name not in after.maps:  # NumPy's own is another file
        return Effect(False, "SciPy's OpenBLAS is not mapped, which the first sgemm_ that it answers does")
    if not _families(before.symbols, "set"):
        return Effect(False, "no product was seen in MKL's kernels before, so nothing shows who multiplies")
    if left := sorted(_families(after.symbols, "set")):
        return Effect(False, f"SciPy's OpenBLAS is mapped, and products are in MKL's {', '.join(left)} kernels")
    return Effect(True, "SciPy's OpenBLAS is mapped, which the first sgemm_ that it answers does")


def _took_blis(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    """Check that no product is left in MKL's kernels: BLIS's own kernels have no names."""
    effect = gone(before, after, KERNEL, "MKL's kernels")
    return Effect(effect.there, f"BLIS is mapped; {effect.evidence}")


CHANGES = (
    preloaded(
        "mkl-dispatch",
        "mkl-intel",
        "MKL takes the kernels that it has for its own vendor's processors",
        lambda before, after: others(before, after, "set"),
        lambda: "this processor is of MKL's own vendor" if vendor() == VENDOR else None,
    ),
    preloaded("openblas-shim", "sgemm-openblas", "OpenBLAS multiplies where MKL did", _took_openblas),
    preloaded("blis-shim", "blis", "BLIS multiplies where MKL did", _took_blis),
)
