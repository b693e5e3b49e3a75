"""The driver's handle on what serves its requests: a worker process, or the host in this one; several as a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kernels.errors import LaunchError, SuiteError
from kernels.users import raised
from micro.worker.messages import Message, R, Serves


class Client(Protocol):
    """`send` and `receive` take turns: one answer for each request, in their order, of the request's type."""

    def send(self, request: Message[Any]) -> None:
        """Raises Died where the process is gone."""

    def receive(self, request: Message[R], patience: float) -> R:
        """The answer to the request that was sent last. Raises KernelError, Unavailable; Died for a crash, or where
        there is no answer within `patience` seconds."""

    def running(self) -> int:
        """The case that was under way when the worker died or raised, or −1."""

    def close(self) -> None:
        """End it."""


class Died(LaunchError):
    """The worker is gone, and with it everything prepared in it."""


def ask(client: Client, request: Message[R], patience: float) -> R:
    """The answer to a request."""
    client.send(request)
    return client.receive(request, patience)


def ask_all(clients: Sequence[Client], requests: Sequence[Message[R]], patience: float) -> list[R]:
    """The answers of ranks that run at once: every request is sent before the first answer is awaited. Raises what the
    first of them raises; where one is gone before its request, the later ones are not asked."""
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
    """The host in this process: for the fake device, whose kernels cannot crash."""

    def __init__(self, host: Serves) -> None:
        self.host = host

    def send(self, request: Message[Any]) -> None:
        """Nothing: it is served when the answer is asked for."""

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
