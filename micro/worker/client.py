"""The driver's handles on what serves its requests: a worker process, the host here, or a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kernels.errors import LaunchError, SuiteError
from kernels.users import raised
from micro.worker.messages import Message, R, Serves


class Client(Protocol):
    """A peer with one answer for each request, in order, of the request's type; calls take turns."""

    def send(self, request: Message[Any]) -> None:
        """Send a request. Raises Died where the process is gone."""

    def receive(self, request: Message[R], patience: float) -> R:
        """Return the answer to the last request.

        Raises KernelError, Unavailable; Died for a crash, or without an answer within `patience` seconds."""

    def running(self) -> int:
        """Return the case that was under way when the worker died or raised, or −1."""

    def close(self) -> None:
        """End the worker."""


class Died(LaunchError):
    """The end of a worker, with everything prepared in it."""


def ask(client: Client, request: Message[R], patience: float) -> R:
    """Send a request and return its answer."""
    client.send(request)
    return client.receive(request, patience)


def ask_all(clients: Sequence[Client], requests: Sequence[Message[R]], patience: float) -> list[R]:
    """Return the answers of ranks that run at once; all requests are sent before any answer is read.

    Raises the first error of the first rank that has one; if a rank is gone before its request, later ranks get
    none."""
    sent: list[tuple[Client, Message[R]]] = []
    answers: list[R] = []
    errors: list[SuiteError] = []
    try:
        for client, request in zip(clients, requests, strict=True):
            client.send(request)
            sent.append((client, request))
    except SuiteError as error:
        errors.append(error)
    for client, request in sent:
        try:
            answers.append(client.receive(request, patience))
        except SuiteError as error:  # the others' answers are taken all the same: none is left for a later request
            errors.append(error)
    if errors:
        raise errors[0]
    return answers


class Local:
    """The host in this process, for the fake device, whose kernels cannot crash."""

    def __init__(self, host: Serves) -> None:
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
