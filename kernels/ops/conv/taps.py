"""One axis of a convolution: which taps of a filter lie inside the image, and what a part of it needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """Output `o` at tap `t` reads the image at `o * stride + t * dilation - before`; outside it reads zeros."""

    size: int
    taps: int
    stride: int
    before: int
    after: int
    dilation: int

    @property
    def outputs(self) -> int:
        """How many fit; less than one where the filter is longer than the padded image."""
        return (self.size + self.before + self.after - (self.taps - 1) * self.dilation - 1) // self.stride + 1

    def at(self, output: int, tap: int) -> int:
        """The place in the image, which may lie outside it."""
        return output * self.stride + tap * self.dilation - self.before

    def inside(self, tap: int, first: int = 0, last: int | None = None) -> range:
        """Those of the outputs from `first` until before `last` whose tap lies inside the image."""
        shift = tap * self.dilation - self.before
        begin = max(first, -(shift // self.stride))
        end = min(self.outputs if last is None else last, (self.size - 1 - shift) // self.stride + 1)
        return range(begin, max(begin, end))

    @property
    def pairs(self) -> int:
        """Outputs and taps that multiply an element of the image, and no padding."""
        return sum(len(self.inside(tap)) for tap in range(self.taps))

    def of_output(self, output: int) -> tuple[range, Line]:
        """What of the image one output reads, and the line that is left of this one; nothing where it reads padding
        alone."""
        first, last = self.at(output, 0), self.at(output, self.taps - 1)
        places = range(max(0, first), min(self.size, last + 1))
        before, after = max(0, -first), max(0, last + 1 - self.size)
        return places, Line(len(places), self.taps, self.stride, before, after, self.dilation)

    def of_tap(self, tap: int) -> tuple[range, Line]:
        """What of the image one tap reads for all outputs, and the line with it alone."""
        first, last = self.at(0, tap), self.at(self.outputs - 1, tap)
        places = range(max(0, first), min(self.size, last + 1))
        before, after = max(0, -first), max(0, last + 1 - self.size)
        return places, Line(len(places), 1, self.stride, before, after, 1)

    def of_places(self, first: int, count: int) -> tuple[range, Line]:
        """Which outputs read any of the `count` places from `first` on, and the line that is left of this one. `first`
        is where some output begins, or 0; `count` at most a stride."""
        reach = (self.taps - 1) * self.dilation
        begin = max(0, -((reach - self.before - first) // self.stride))
        end = min(self.outputs - 1, (first + count - 1 + self.before) // self.stride)
        before = self.before + first - begin * self.stride
        after = max(0, (end - begin) * self.stride + reach + 1 - count - before)
        return range(begin, end + 1), Line(count, self.taps, self.stride, before, after, self.dilation)
