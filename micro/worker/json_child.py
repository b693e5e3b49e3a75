"""A child process driven by JSON lines over two pipes: an arm of `micro.ab`, or a framework."""

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
    """A running child process, killed on its first error. Raises OSError if it cannot start.

    Its command line ends in three numbers: the descriptors of requests and of messages, and this process's id.
    `output` and `errors`: files for its stdout and stderr, by default this process's stdout and `output`."""

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        output: IO[bytes] | None = None,
        errors: IO[bytes] | None = None,
    ) -> None:
        (requests, self._to), (self._from, messages) = os.pipe(), os.pipe()
        self._parts: list[bytes] = []
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
        """Process id of the child."""
        return self._process.pid

    def send(self, request: Mapping[str, Any]) -> None:
        """Send a request. Raises Died if the child has ended."""
        try:
            os.write(self._to, (json.dumps(request) + "\n").encode())
        except OSError:
            raise self._death() from None

    def receive(self, patience: float, what: str = "answer") -> dict[str, Any]:
        """Return the next message.

        Raises Died if no message comes within `patience` seconds, the child has ended, or it sends no JSON object.
        `what`: name of the expected message, for the error."""
        message = self.poll(patience)
        if message is None:
            raise self.fault(f"hangs: no {what} within {patience:.0f} s")
        return message

    def poll(self, patience: float) -> dict[str, Any] | None:
        """Return the next message; None if none comes within `patience` seconds. Raises Died."""
        line = self._line(time.monotonic() + patience)
        if line is None:
            return None
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise self.fault(f"sends an invalid message: {line[:60]!r}")
        return message

    def fault(self, text: str) -> Died:
        """End the child, so that no late answer is read as the next answer; return the error to raise."""
        self.close()
        return Died(text)

    def _line(self, end: float) -> bytes | None:
        """Return the next line; None if it has not come by `end`."""
        parts = self._parts  # joined once: a line may be of many megabytes
        while not parts or b"\n" not in parts[-1]:
            left = end - time.monotonic()
            gone = self._process.poll() is not None  # a grandchild may hold the descriptor open
            if select.select([self._from], [], [], max(0.0, min(left, GLANCE)))[0]:
                more = os.read(self._from, 1 << 16)
                if not more:
                    raise self._death()
                parts.append(more)
            elif gone:
                raise self._death()
            elif left <= 0:
                return None
        line, _, rest = b"".join(parts).partition(b"\n")
        self._parts = [rest]
        return line

    def _death(self) -> Died:
        self.wait()  # the child may have closed its descriptor and live on
        code = self._process.returncode
        self.close()
        return ended(code)

    def wait(self) -> bool:
        """Wait up to CLOSE seconds for the child to end; report whether it did."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE)
        return self._process.returncode is not None

    def close(self) -> None:
        """End the child and its process group.

        A second call does nothing: the id may be another process's by then."""
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
