"""Mutations of Python sources: one expression or statement replaced by a similar one."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("kernels", "micro", "macro", "reports")
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutation:
    """`before` at one place of a file, replaced by `after`. `statement`: its first line, by which it is found again."""

    file: str
    function: str  # dotted, "" at the level of the module
    line: int
    column: int  # in characters
    before: str
    after: str
    statement: str

    def apply(self, root: Path) -> str:
        """Write the mutated file and return its original text. Raises ValueError where the place holds other text."""
        path = root / self.file
        text = path.read_text("utf-8")
        lines = text.splitlines(keepends=True)
        start = sum(map(len, lines[: self.line - 1])) + self.column
        if not text.startswith(self.before, start):
            raise ValueError(f"{self.file}:{self.line} does not hold {self.before!r}")
        path.write_text(text[:start] + self.after + text[start + len(self.before) :], "utf-8")
        return text


def mutations(root: Path) -> Iterator[Mutation]:
    """Yield every mutation of the product, in the order of files and lines."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            yield from in_file(path.read_text("utf-8"), str(path.relative_to(root)))


def in_file(text: str, file: str) -> Iterator[Mutation]:
    """Yield every mutation of one file."""
    lines = text.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    for node, function, statement in _walk(ast.parse(text), "", None):
        if statement is None or node.end_lineno is None or node.end_col_offset is None:
            continue
        column = _characters(lines[node.lineno - 1], node.col_offset)
        end = starts[node.end_lineno - 1] + _characters(lines[node.end_lineno - 1], node.end_col_offset)
        before = text[starts[node.lineno - 1] + column : end]
        first = lines[statement.lineno - 1].strip()
        for after in _replacements(node):
            yield Mutation(file, function, node.lineno, column, before, after, first)


def _characters(line: str, count: int) -> int:
    """Return the number of characters in so many bytes of UTF-8."""
    return len(line.encode()[:count].decode())


def _walk(
    node: ast.AST, function: str, statement: ast.stmt | None
) -> Iterator[tuple[ast.expr | ast.stmt, str, ast.stmt | None]]:
    """Yield what may be mutated, with its function and statement; no annotation, no text, nothing for type checkers."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _passed_over(child):
                continue
            where = child if isinstance(child, ast.stmt) else statement
            inside = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inside = f"{function}.{child.name}".lstrip(".")
            if isinstance(child, ast.expr | ast.stmt):
                yield child, inside, where
            yield from _walk(child, inside, where)


def _passed_over(node: ast.AST) -> bool:
    """Whether a node is a docstring, a formatted string, or for type checkers alone."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return constant or isinstance(node, ast.JoinedStr)


def _replacements(node: ast.AST) -> Iterator[str]:
    """Yield the texts that stand for a node in its mutants."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield ast.unparse(ast.Compare(node.left, [COMPARISONS[type(op)]()], node.comparators))
        case ast.BinOp(op=op) if type(op) in ARITHMETIC and not (_is_text(node.left) or _is_text(node.right)):
            yield f"({ast.unparse(ast.BinOp(node.left, ARITHMETIC[type(op)](), node.right))})"
        case ast.BoolOp(op=op):
            yield f"({ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), node.values))})"
        case ast.UnaryOp(op=ast.Not()):
            yield f"({ast.unparse(node.operand)})"
        case ast.IfExp():
            yield f"({ast.unparse(ast.IfExp(node.test, node.orelse, node.body))})"
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() | float() as value):
            yield repr(value + 1)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return None"
        case ast.Expr(value=ast.Call()):
            yield "pass"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
