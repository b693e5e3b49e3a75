"""One variable for all of NVIDIA's libraries: does it take TF32 out of torch's convolutions?"""

from __future__ import annotations

from functools import partial
from typing import Any

from micro.probing import processes
from micro.probing.facts import Facts, need

QUESTION = "Does NVIDIA_TF32_OVERRIDE=0 bring torch's convolution from TF32's error to that of fp32?"
LIMIT = 100.0
PART = 3
RANK = 110


def ask() -> dict[str, Any]:
    need("torch")
    facts = Facts()
    for name, settings in {"as it is": {}, "NVIDIA_TF32_OVERRIDE=0": {"NVIDIA_TF32_OVERRIDE": "0"}}.items():
        facts.ask(name, partial(processes.inside, "torch-error", seconds=45.0, **settings))
    return facts.found
