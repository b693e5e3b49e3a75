"""The device and the machine of the tests of what probes share."""

from tests.micro.probing.conftest import device, here

__all__ = ["device", "here"]
