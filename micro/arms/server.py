"""One arm of `micro.ab`: a fresh process of one checkout and interpreter, driven turn by turn.

The protocol is JSON lines, so that two versions of this suite can be compared: a request is `{"do":
…}`, an answer is its result or `{"error": …}`."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from kernels import suite
from kernels.devices import open_device
from kernels.errors import SuiteError
from kernels.users import raised
from micro.command import environment as machine
from micro.planning.contest import parse
from micro.planning.options import request
from micro.planning.request import planned
from micro.worker.host import Host
from micro.worker.process import die_with, pin


class Arm:
    """Server of an arm's requests: each public method but `answer` serves the request of its name."""

    def __init__(self, device: str) -> None:
        self._host = Host(open_device(device), 0)

    def answer(self, do: str, given: dict[str, Any]) -> dict[str, Any]:
        """Run the method `do` and return its answer. Raises what the method raises."""
        methods: dict[str, Callable[..., dict[str, Any]]] = {
            "plan": self.plan,
            "prepare": self.prepare,
            "open": self.open,
            "settle": self.settle,
            "look": self.look,
            "close": self.close,
        }
        return methods[do](**given)

    def plan(self, words: list[str]) -> dict[str, Any]:
        """Return the cases of a command, and the environment in which they would run."""
        module, *rest = words
        name = module.rpartition(".")[2]
        benchmark, arguments = request(
            importlib.import_module(suite.PREFIX + module).BENCHMARK, name, rest, raising=True
        )
        plan = planned(benchmark, name, arguments)
        cases = {case.name: case for contest in plan.contests for case in contest.cases}
        environment = machine.environment([self._host.device], " ".join(words))
        return {
            "cases": [
                {"name": name, "skip": case.skip, "threads": case.setting.threads} for name, case in cases.items()
            ],
            "environment": {"digest": environment.digest, "facts": environment.facts, "state": environment.state},
            "root": str(suite.ROOT),
        }

    def prepare(self, case: str, seed: int | None) -> dict[str, Any]:
        """Prepare a case, and check its result if a seed is given."""
        parsed = parse(case)
        prepared = self._host.prepare(parsed)
        error = self._host.check(parsed, seed).error if seed is not None else None
        return {"kernel": prepared.kernel, "isa": prepared.isa, "error": error}

    def open(self, case: str, seed: int) -> dict[str, Any]:
        """Open a contest of one case; return the seconds of one launch of each of its parts."""
        parsed = parse(case)
        return {"calls": self._host.open([parsed], [True], seed)[0]}

    def settle(self, calls: list[float], visit: float) -> dict[str, Any]:
        """Choose launches per sample; return their number, and seconds of a sample and of a round."""
        opened = self._host.calibrate([calls], visit)
        return {
            "launches": opened.launches[0],
            "visit": opened.visits[0],
            "round": opened.round,
            "queues": opened.queues,
        }

    def look(self, first: int, rounds: int, canary: bool) -> dict[str, Any]:
        """Run a batch of rounds; return the seconds of one use in each, as wall and as processor time."""
        look = self._host.run_rounds(first, rounds, None, canary)
        return {
            "wall": look.wall[:, 0].tolist(),
            "cpu": look.cpu[:, 0].tolist(),
            "lost": look.lost[:, 0].tolist(),
            "canary": look.canary,
        }

    def close(self) -> dict[str, Any]:
        """Release the case and what it holds."""
        self._host.close()
        return {}


def main(arguments: list[str]) -> None:
    """Serve requests until the pipe ends."""
    device, threads, read, write, parent = arguments[0], *map(int, arguments[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
    os.dup2(2, 1)  # a kernel's print must not land in a document on stdout
    pin(threads)
    with os.fdopen(read, encoding="utf-8") as requests, os.fdopen(write, "w", encoding="utf-8") as answers:
        arm = Arm(device)
        for line in requests:
            request = json.loads(line)
            try:
                answer = arm.answer(request.pop("do"), request)
            except SuiteError as error:
                answer = {"error": str(error), "kind": type(error).__name__}
            except Exception as error:
                answer = {"error": f"raises {raised(error)}", "kind": "LaunchError"}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
