"""How it is measured. A file is a benchmark, or a command a person runs; a folder is what they are made of.

From Python: `run = micro.measure(micro.plan("gemm", m=[64, 128], variant="openblas,numpy", budget="5s"))`.
"""

from micro.command.api import measure, plan

__all__ = ["measure", "plan"]
