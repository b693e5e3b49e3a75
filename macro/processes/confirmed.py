"""Settings that `advise` confirmed as a step's fastest on this machine, for division `tuned`."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kernels import state
from kernels.devices.cpu import processor
from macro.frameworks import Framework
from macro.processes.job import Setting

if TYPE_CHECKING:
    from macro.networks.base import Network


def keep(network: Network, framework: Framework, changed: Framework, setting: Setting, budget: float) -> None:
    """Store a setting confirmed by an advice of `budget` seconds; `changed`: its row, if of the same adapter."""
    knobs = {name: value for name, value in changed.knobs.items() if framework.knobs.get(name) != value}
    record = {**asdict(setting), "knobs": {**knobs, **setting.knobs}, "budget": budget}
    with suppress(OSError):  # one lost costs another advice
        state.write(_name(network, framework), json.dumps(record, default=str))


def forget(network: Network, framework: Framework) -> None:
    """Delete the confirmed setting."""
    with suppress(OSError):
        (state.folder() / _name(network, framework)).unlink(missing_ok=True)


def budget(network: Network, framework: Framework) -> float:
    """Return the seconds of the advice that confirmed the kept setting; 0 where none is kept."""
    with suppress(OSError, ValueError):
        return float(_record(network, framework).get("budget", 0.0))
    return 0.0


def find(network: Network, framework: Framework, threads: int, heap: str) -> Setting | None:
    """Return the confirmed setting, with `threads` threads; None where there is none."""
    with suppress(OSError, ValueError, KeyError):
        record = _record(network, framework)
        policy = heap if record["heap"] == Setting().heap else str(record["heap"])
        return Setting(threads, policy, record["knobs"], str(record["preload"]))
    return None


def _record(network: Network, framework: Framework) -> dict[str, Any]:
    return dict(json.loads((state.folder() / _name(network, framework)).read_text("utf-8")))


def _name(network: Network, framework: Framework) -> str:
    """Return the file of a setting, which depends on network, framework's row and processor."""
    row = framework.name.partition("~")[0]
    parts = json.dumps([network.data(), row, processor()], sort_keys=True, default=str)
    return f"advice/{hashlib.sha256(parts.encode()).hexdigest()[:24]}.json"
