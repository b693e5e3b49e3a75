"""Clients by which the driver sends requests to a worker process, or to a host in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kernels.errors import LaunchError, SuiteError
from kernels.users import raised
from micro.worker.messages import Message, R

if TYPE_CHECKING:
    from micro.worker.host import Host


class Client(Protocol):
    """A server of requests: each `send` is followed by one `receive`, for that request's answer."""

    def send(self, request: Message[Any]) -> None:
        """Send a request. Raises Died if the process has ended."""

    def receive(self, request: Message[R], patience: float) -> R:
        """Return the answer to the last request.

        Raises KernelError, Unavailable; Died for a crash or no answer within `patience` seconds."""

    def running(self) -> int:
        """Return the case that was under way when the worker died or raised, or −1."""

    def close(self) -> None:
        """End the worker."""


class Died(LaunchError):
    """Death of a worker (crash, hang or exit), with which everything prepared in it is lost."""


def ask(client: Client, request: Message[R], patience: float) -> R:
    """Send a request and return its answer."""
    client.send(request)
    return client.receive(request, patience)


class Local:
    """A client of a host in this process, for simulated devices, whose kernels cannot crash."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def send(self, request: Message[Any]) -> None:
        """Do nothing: `receive` serves the request."""

    def receive(self, request: Message[R], patience: float) -> R:
        try:
            return request.on(self.host)
        except SuiteError:
            raise
        except Exception as error:
            raise LaunchError(f"raises {raised(error)}") from error

    def running(self) -> int:
        return self.host.running()

    def close(self) -> None:
        pass
