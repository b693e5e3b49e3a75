"""How statistics that a library keeps otherwise would be as the others keep them."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("beside")


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_variance_without_its_correction_is_as_with_it(steps: int) -> None:
    """Running variances of both kinds, step by step, from the variances of batches."""
    import layouts

    rng, share, batch, rows, columns = np.random.default_rng(1), 0.3, 2, 3, 4
    count = batch * rows * columns
    biased, unbiased = np.ones(5), np.ones(5)
    for _ in range(steps):
        seen = rng.uniform(0.5, 2.0, 5)
        biased += share * (seen - biased)
        unbiased += share * (seen * count / (count - 1) - unbiased)
    layers = [
        {"name": "norm", "frozen": False, "share": share, "out": [5, rows, columns]},
        {"name": "still", "frozen": True, "share": share, "out": [5, rows, columns]},
        {"name": "fc"},
    ]
    mean = rng.normal(size=5)
    arrays = {"norm.variance": biased.astype(np.float32), "norm.mean": mean, "still.variance": np.ones(5, np.float32)}
    found = layouts.unbiased(arrays, layers, batch, steps)
    assert found["norm.variance"] == pytest.approx(unbiased, rel=1e-5)
    assert found["norm.mean"] == pytest.approx(mean) and (found["still.variance"] == 1).all()


def layer(name: str, kind: str, after: str, **more: object) -> dict[str, object]:
    return {"name": name, "kind": kind, "after": [after], "in": [[3, 2, 4]], **more}


@pytest.mark.parametrize(("taker", "turned"), [("dense", True), ("add", False)])
def test_a_mask_lies_as_what_it_multiplies(taker: str, turned: bool) -> None:
    """With the channels last; flattened so too, but where something takes it that sees how it lies."""
    import layouts

    image = np.arange(2 * 3 * 2 * 4, dtype=np.float32).reshape(2, 3, 2, 4)
    drop = layer("drop", "dropout", "conv", mask=image)
    assert (layouts.mask(drop, [layer("conv", "conv", ""), drop]) == image.transpose(0, 2, 3, 1)).all()
    flat = image.reshape(2, -1)
    first = layer("first", "dropout", "flat", mask=flat)
    second = layer("second", "dropout", "first", mask=flat)
    layers = [layer("flat", "flatten", "conv"), first, second, layer("last", taker, "second")]
    wanted = image.transpose(0, 2, 3, 1).reshape(2, -1) if turned else flat
    for told in (first, second):
        assert (layouts.mask(told, layers) == wanted).all()
    data = layer("drop", "dropout", "data", mask=flat)
    assert layouts.mask(data, [data, layer("last", "dense", "drop")]) is flat
