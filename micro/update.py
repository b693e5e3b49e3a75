"""The step of a layer's weights, inside the product that makes their gradient, or after it."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

from kernels.catalog import find, rows
from kernels.errors import UsageError
from kernels.ops.update.problem import Update
from kernels.variant import DEFAULT
from micro import optimizer
from micro.answers.update import PASS, batch_answer, fused_answer
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Question, Request, Useful
from micro.planning.contest import Case, Contest

# The fully connected layers whose update is measured: inputs, outputs, batch.
FCN_S = ((26752, 2048, 64), (2048, 2048, 64))
FCN_R = tuple((m, n, k) for k in (64, 1024) for m, n in ((784, 2048), (2048, 4096), (4096, 1024), (1024, 10)))
ALEXNET_S = ((9216, 4096, 16), (4096, 4096, 16), (4096, 1000, 16))
LAYERS = {"FCN-S": FCN_S, "FCN-R": FCN_R, "AlexNet-S": ALEXNET_S}
BANDED = ((2048, 2048, 16), (2048, 2048, 64), (2048, 2048, 512))  # layers with expected ranges on Intel and AMD
FEW = ((784, 2048, 64), (4096, 1000, 16))  # measured with every library by default
FAR = FCN_S[:1]  # W exceeds a GPU's second-level cache, which holds W of all other layers
FROM_MEMORY = "--m 26752 --n 2048 --k 64 --variant fused:cublas,separate:cublas"  # the layer of FAR, without the parts
SMALL = (784, 2048, 64)  # where rules, tied weights and gains are compared
TILE = 256  # rows and columns of a product whose result stays in the second-level cache
PYTHON_TILE = 512  # the same for a library called from Python, so that the call is negligible
PARTS = ("update", "clear", "scale")  # of an update, beside the gradient
BATCHES = (1, 4, 16, 64, 256)
SWEPT = (2048, 2048)
FUSABLE = ("decay", "momentum", "unit")
SEPARATE = ("decay", "momentum", "unit", "nesterov", "clip", "norm")


def _libraries(asked: Request) -> tuple[str, ...]:
    """Return the GEMM libraries of the variants that were named, or the default libraries."""
    wanted = asked.rows(*((DEFAULT, "all") if asked.every else ()))
    if "variant" in asked.given:
        written = {row.name for row in rows("update", asked.device.kernels)}
        wanted = tuple(name for name in asked.variants if f"gradient:{name.partition(':')[2]}" in written)
    return tuple(dict.fromkeys(name.partition(":")[2] for name in wanted))


def _passes(asked: Request, layer: Update) -> list[Case]:
    """Return a case for each separate pass over W (PARTS), by the suite's kernel for passes.

    Raises UsageError if the device has none."""
    written = asked.rows("passes")
    if not written:
        raise UsageError(f"--device {asked.settings[0].device}: no pass over W supports this device")
    row = find("update", written[0])
    parts = [replace(layer, part=part) for part in PARTS]
    return [asked.case(part, row.name) for part in parts if row.accepts(part) is None]


def _far(asked: Request) -> tuple[tuple[int, int, int], ...]:
    return FAR if asked.device.undivided else ()


def _named(asked: Request) -> bool:
    return bool({"m", "n", "k"} & asked.given)


def _layers(asked: Request) -> list[Update]:
    """Return the layers of the named sizes, or the question's layers."""
    if _named(asked):
        sizes = [(m, n, k) for m in asked.axes["m"] for n in asked.axes["n"] for k in asked.axes["k"]]
    else:
        of_networks = [layer for layers in LAYERS.values() for layer in layers]
        some = (*FEW, *_far(asked))
        sizes = list(dict.fromkeys((*BANDED, *(of_networks if asked.every else some))))
    return [Update(*layer) for layer in sizes]


def _wanted(asked: Request, layer: Update, library: str) -> bool:
    """Return whether a library is measured on a layer.

    By default layers other than FEW, FAR and BANDED[1] are measured only with the first library."""
    everything = asked.every or _named(asked) or "variant" in asked.given
    layers = (*FEW, *_far(asked), BANDED[1])
    return everything or library == _libraries(asked)[0] or (layer.m, layer.n, layer.k) in layers


def forms(asked: Request, layer: Update, library: str) -> Contest:
    """Return the contest of the separate against the fused update of a layer, and of their parts."""
    passes = _passes(asked, layer)
    gradient = replace(layer, part="wgrad")
    side = PYTHON_TILE if find("update", f"gradient:{library}").python else TILE
    tile = replace(layer, m=min(layer.m, side), n=min(layer.n, side))
    cases = [
        asked.case(layer, f"fused:{library}"),
        asked.case(layer, f"separate:{library}"),
        asked.case(gradient, f"gradient:{library}"),
        *passes,
    ]
    if tile != layer and len(passes) == len(PARTS):
        # As many tiles as the layer has, so that samples are equally long; odd, since each call negates the sign.
        times = round(layer.count / tile.count) | 1
        again = "" if find("update", f"gradient:{library}").python else f"*{times}"
        cases.append(asked.case(replace(tile, part="wgrad"), f"gradient:{library}{again}"))
        cases.append(asked.case(replace(tile, part="scale"), f"{passes[-1].variant}*{times}"))
    question = f"is {library}'s step faster as one product than as a product and a pass, and what are its parts?"
    differs = "work: differs (form, and its parts alone)"
    return Contest(f"fused/{layer.name}/{library}", question, differs, tuple(cases), ((0, 1),))


def ways(asked: Request, layer: Update) -> Contest:
    """Return the contest of all implementations of a layer's update."""
    question = "which form of the step is fastest?"
    return asked.between(f"ways/{layer.name}", question, layer, asked.rows("ways"))


def rules(asked: Request, layer: Update, library: str) -> Contest:
    """Return the contest of other rules against sgd, and of each rule separate against fused."""
    plain = asked.case(layer, f"separate:{library}")
    others = [asked.case(replace(layer, rule=rule), f"separate:{library}") for rule in SEPARATE]
    inside = [asked.case(replace(layer, rule=rule), f"fused:{library}") for rule in FUSABLE]
    cases = (plain, *others, *inside)
    pairs = [(0, i + 1) for i in range(len(others))]
    pairs += [(1 + len(others) + i, 1 + SEPARATE.index(rule)) for i, rule in enumerate(FUSABLE)]
    question = f"what do momentum, decay and clipping cost after {library}'s product, and inside it?"
    return Contest(f"rules/{layer.name}/{library}", question, "work: differs (rule)", cases, tuple(pairs))


def tied(asked: Request, layer: Update, library: str) -> Contest:
    """Return the contest of updates of a W shared by two layers.

    Both GEMMs accumulate into W, into one gradient, or into two gradients that are summed."""
    problem = replace(layer, rule="tied")
    written = {row.name for row in rows("update", asked.device.kernels)}
    forms = [f"{form}:{library}" for form in ("fused", "separate")]
    forms += [form for form in (f"two-buffers:{library}",) if form in written]
    question = "where should the second gradient of a shared W be added?"
    pairs = itertools.pairwise(range(len(forms)))
    return asked.between(f"tied/{problem.name}/{library}", question, problem, forms, pairs=pairs)


def gain(asked: Request, layer: Update, library: str) -> Contest:
    """Return the contest of unit-gain momentum against momentum, at rates that give equal steps."""
    plain = replace(layer, rule="momentum", lr=1 - layer.mu)
    unit = replace(layer, rule="unit", lr=1.0)
    name, question = f"gain/{layer.name}/{library}", "does momentum of unit gain cost anything?"
    return asked.along(name, question, "work: differs (rule)", (plain, unit), f"fused:{library}")


def fused(asked: Request) -> list[Contest]:
    """Return the contests of `--fused`: fused and separate updates, rules, shared weights, unit gain."""
    layers, libraries = _layers(asked), _libraries(asked)
    contests = [forms(asked, x, library) for x in layers for library in libraries if _wanted(asked, x, library)]
    small = layers[0] if _named(asked) else Update(*SMALL)
    native = [library for library in libraries if not library.startswith("torch")]
    for library in native if asked.every else native[:1]:
        contests += [rules(asked, small, library), tied(asked, small, library), gain(asked, small, library)]
    if asked.every or _named(asked):
        contests += [ways(asked, layer) for layer in ([small] if not _named(asked) else layers)]
    return contests


def batch_at(asked: Request, m: int, n: int, k: int, library: str) -> Contest:
    """Return the contest of the update pass over W against the gradient's GEMM, at batch `k`.

    A second pair compares the separate update with the fused one."""
    layer = Update(m, n, k)
    cases = (
        asked.case(replace(layer, part="wgrad"), f"gradient:{library}"),
        _passes(asked, layer)[0],
        asked.case(layer, f"fused:{library}"),
        asked.case(layer, f"separate:{library}"),
    )
    question = f"does the pass over W take as long as {library}'s gradient at batch {k}?"
    differs = "work: differs (part of the step)"
    return Contest(f"batch/{layer.name}/{library}", question, differs, cases, ((0, 1), (2, 3)))


def batch(asked: Request) -> list[Contest]:
    """Return contests at several batches, which bracket where pass and gradient cost the same."""
    m, n = (asked.named(name, (size,))[0] for name, size in zip("mn", SWEPT, strict=True))
    libraries = _libraries(asked)
    if not asked.every and "variant" not in asked.given:
        libraries = libraries[:2]
    return [batch_at(asked, m, n, k, library) for library in libraries for k in asked.named("k", BATCHES)]


BENCHMARK = Benchmark(
    Update,
    "A layer's step, W ← W − lr·XᵀdY / batch. Default question: --fused. --rules and --together test optimizers "
    "alone, as in micro.optimizer.",
    sweep={"m": (512,), "n": (512,), "k": (64,), "rule": ("sgd",)},
    questions={
        "fused": Question(
            "is the step faster as one product than as a product and a pass? (about 30 s)",
            fused,
            fused_answer,
            all="every layer, library and form of the step",
        ),
        "batch": Question(
            "at which batch does the pass over W take as long as its gradient? (about 30 s)",
            batch,
            batch_answer,
            refine=lambda asked, run: [batch_at(asked, m, n, k, library) for library, m, n, k in PASS.middles(run)],
            all="every library",
        ),
    },
    useful=(
        Useful("--fused"),
        Useful("--batch"),
        Useful("--fused --not m:26752", 90, 20.0),
        Useful(FROM_MEMORY, 100, 4.0),
        Useful("--batch --only 'cublas$'", 110, 8.0),
    ),
    small="--m 8 --n 16 --k 4",
    default="fused",
    sweeping=("part", "rule", "lr", "mu", "decay", "limit"),
    others=(optimizer.BENCHMARK,),
)


if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "update"))
