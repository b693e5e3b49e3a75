"""A child process that answers requests in JSON lines over two pipes of its own: an arm of `micro.ab`, a framework."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Self

from micro.worker.client import Died
from micro.worker.process import CLOSE, GLANCE, ended


class JsonChild:
    """Alive from here on. Its command ends in the descriptor that it reads requests from, the one that it writes
    messages to, and this process's id; `output` and `errors` take what it prints, by default where this process prints
    and where its output goes. Once an error of it was raised its process is gone. Raises OSError where it cannot be
    started."""

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        output: IO[bytes] | None = None,
        errors: IO[bytes] | None = None,
    ) -> None:
        (requests, self._to), (self._from, messages) = os.pipe(), os.pipe()
        self._rest = b""
        try:
            self._process = subprocess.Popen(
                [*words, str(requests), str(messages), str(os.getpid())],
                env=environment,
                pass_fds=(requests, messages),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors or output,
                process_group=0,  # an interrupt typed at the terminal is the parent's alone
            )
        except BaseException:
            self._close_pipes()
            raise
        finally:
            os.close(requests)
            os.close(messages)

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def send(self, request: Mapping[str, Any]) -> None:
        """A request. Raises Died."""
        try:
            os.write(self._to, (json.dumps(request) + "\n").encode())
        except OSError:
            raise self._death() from None

    def receive(self, patience: float, what: str = "answer") -> dict[str, Any]:
        """Its next message. Raises Died where none comes within `patience` seconds, it has ended, or sends no JSON;
        `what` was expected."""
        message = self.poll(patience)
        if message is None:
            raise self.fault(f"hangs: no {what} within {patience:.0f} s")
        return message

    def poll(self, patience: float) -> dict[str, Any] | None:
        """Its next message; None where none comes within `patience` seconds. Raises Died."""
        line = self._line(time.monotonic() + patience)
        if line is None:
            return None
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise self.fault(f"sends what is no message: {line[:60]!r}")
        return message

    def fault(self, text: str) -> Died:
        """Its error, for what it did wrong: it is ended, so that a late answer is not taken for the next one."""
        self.close()
        return Died(text)

    def _line(self, end: float) -> bytes | None:
        """The next line; None where it has not come by then."""
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            gone = self._process.poll() is not None  # a child of its may hold the descriptor open
            if select.select([self._from], [], [], max(0.0, min(left, GLANCE)))[0]:
                more = os.read(self._from, 1 << 16)
                if not more:
                    raise self._death()
                self._rest += more
            elif gone:
                raise self._death()
            elif left <= 0:
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _death(self) -> Died:
        self.wait()  # it may have closed its descriptor and live on
        code = self._process.returncode
        self.close()
        return ended(code)

    def wait(self) -> bool:
        """For its own end, a while: whether it came."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE)
        return self._process.returncode is not None

    def close(self) -> None:
        """End it and whatever it started. A second time does nothing: its id may be another process's by then."""
        if self._from < 0:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for handle in (self._from, self._to):
            with suppress(OSError):
                os.close(handle)
        self._from = self._to = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()
