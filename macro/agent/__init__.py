"""Code inside the observed process, run by path in the framework's or script's environment."""

from __future__ import annotations
