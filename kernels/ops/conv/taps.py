"""One axis of a convolution: the taps of a filter that lie inside the image, and parts of the axis."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """An axis: output `o` at tap `t` reads place `o * stride + t * dilation - before`, a zero outside."""

    size: int  # places of the image
    taps: int
    stride: int
    before: int  # zeros before the image
    after: int  # zeros after the image
    dilation: int

    @property
    def outputs(self) -> int:
        """Number of outputs; less than one if the filter is longer than the padded image."""
        return (self.size + self.before + self.after - (self.taps - 1) * self.dilation - 1) // self.stride + 1

    def at(self, output: int, tap: int) -> int:
        """Return the place in the image that an output reads at a tap, which may lie outside the image."""
        return output * self.stride + tap * self.dilation - self.before

    def inside(self, tap: int, first: int = 0, last: int | None = None) -> range:
        """Return the outputs in [first, last) whose tap lies inside the image."""
        shift = tap * self.dilation - self.before
        begin = max(first, -(shift // self.stride))
        end = min(self.outputs if last is None else last, (self.size - 1 - shift) // self.stride + 1)
        return range(begin, max(begin, end))

    @property
    def pairs(self) -> int:
        """Pairs of output and tap that multiply an element of the image instead of padding."""
        return sum(len(self.inside(tap)) for tap in range(self.taps))

    def of_output(self, output: int) -> tuple[range, Line]:
        """Return the image's places that one output reads, and the Line restricted to these places.

        The places are empty if the output reads padding alone."""
        first, last = self.at(output, 0), self.at(output, self.taps - 1)
        places = range(max(0, first), min(self.size, last + 1))
        before, after = max(0, -first), max(0, last + 1 - self.size)
        return places, Line(len(places), self.taps, self.stride, before, after, self.dilation)

    def of_tap(self, tap: int) -> tuple[range, Line]:
        """Return the image's places that one tap reads for all outputs, and the Line with that tap alone."""
        first, last = self.at(0, tap), self.at(self.outputs - 1, tap)
        places = range(max(0, first), min(self.size, last + 1))
        before, after = max(0, -first), max(0, last + 1 - self.size)
        return places, Line(len(places), 1, self.stride, before, after, 1)

    def of_places(self, first: int, count: int) -> tuple[range, Line]:
        """Return the outputs that read any of `count` places from `first` on, and the Line of these places.

        `first` is where some output begins, or 0; `count` is at most a stride."""
        reach = (self.taps - 1) * self.dilation
        begin = max(0, -((reach - self.before - first) // self.stride))
        end = min(self.outputs - 1, (first + count - 1 + self.before) // self.stride)
        before = self.before + first - begin * self.stride
        after = max(0, (end - begin) * self.stride + reach + 1 - count - before)
        return range(begin, end + 1), Line(count, self.taps, self.stride, before, after, self.dilation)
