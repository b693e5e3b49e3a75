"""How it is measured. A file without an underscore is a benchmark, or a command a person runs.

From Python: `run = micro.measure(micro.plan("gemm", m=[64, 128], variant="openblas,numpy", budget="5s"))`.
"""

from micro._api import measure, plan

__all__ = ["measure", "plan"]
