"""Code inside the observed process, run by path in an environment of its own."""

from __future__ import annotations
