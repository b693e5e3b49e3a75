"""The picture of the folders: up to date, without needless arrows, each room below what imports it."""

from __future__ import annotations

import ast

import pytest

from tests import house
from tests.conftest import load

rooms = load(house.ROOT / "docs/rooms.py")


def test_the_picture_shows_what_imports_what() -> None:
    assert rooms.drawn() == rooms.graph(), "make docs"


def test_every_room_is_on_the_picture() -> None:
    text = rooms.PICTURE.read_text("utf-8")
    assert [room for rooms_ in house.ROOMS.values() for room in rooms_ if f">{room}</text>" not in text] == []


@pytest.mark.parametrize(
    ("arrows", "left"),
    [
        ([("a", "b"), ("b", "c")], [("a", "b"), ("b", "c")]),
        ([("a", "b"), ("a", "c"), ("b", "c")], [("a", "b"), ("b", "c")]),
        ([("a", "b"), ("a", "d"), ("b", "c"), ("c", "d")], [("a", "b"), ("b", "c"), ("c", "d")]),
        ([("a", "b"), ("a", "c")], [("a", "b"), ("a", "c")]),
    ],
)
def test_an_arrow_that_others_make_needless_is_left_out(
    arrows: list[tuple[str, str]], left: list[tuple[str, str]]
) -> None:
    assert rooms.needed(arrows) == left


def test_a_room_stands_below_what_imports_it_and_long_arrows_pass_between() -> None:
    arrows = [("commands", "formats"), ("formats", "figures"), ("commands", "records"), ("figures", "records")]
    long = ("commands", "records")
    rows = [set(row) for row in rooms.panel("reports", arrows).rows]
    assert rows == [{"commands"}, {"formats", long}, {"figures", long}, {"records"}]


def test_a_room_without_arrows_stands_at_the_bottom() -> None:
    rows = [set(row) for row in rooms.panel("reports", [("commands", "records")]).rows]
    assert rows == [{"commands"}, {"records", "formats", "figures"}]


def test_layers_are_put_in_an_order_without_crossings() -> None:
    arrows = [("commands", "figures"), ("formats", "records")]
    (top, bottom) = rooms.panel("reports", arrows).rows
    assert (top.index("commands") < top.index("formats")) == (bottom.index("figures") < bottom.index("records"))


KNOWS_KINDS = ("kernels", "macro/frameworks", "macro/worker")  # what is of one device


def test_only_rooms_of_a_device_name_its_kind() -> None:
    """Elsewhere a device says what it is: its kind, its rows."""
    paths = [path for folder in ("micro", "macro", "reports") for path in sorted((house.ROOT / folder).rglob("*.py"))]
    told = [path.relative_to(house.ROOT).as_posix() for path in paths if '"cuda"' in path.read_text("utf-8")]
    assert [name for name in told if not name.startswith(KNOWS_KINDS)] == []


def test_attributes_are_asked_for_by_names_that_can_be_read() -> None:
    found = []
    for path in (path for folder in ("micro", "macro") for path in sorted((house.ROOT / folder).rglob("*.py"))):
        if "worker" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
                found += [] if isinstance(node.args[1], ast.Constant) else [f"{path.name}:{node.lineno}"]
    assert found == []
