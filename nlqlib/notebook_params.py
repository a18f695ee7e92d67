"""A notebook's parameters, checked before a kernel starts: papermill itself only warns of unknown names."""

import ast
import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat

from nlqlib.records import Json

TAG = "parameters"
TRUE, FALSE = {"true", "1", "yes"}, {"false", "0", "no"}


class ParameterError(ValueError):
    """A parameter that no notebook has, or a value of the wrong type; says which would do."""


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """The notebook at `path`. Raises `ParameterError` for a file that is none."""
    try:
        return nbformat.reads(path.read_text("utf-8"), as_version=4)
    except (OSError, ValueError, nbformat.ValidationError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ParameterError(f"{path.name} is no readable notebook: {reason[:200]}") from error


def declared(path: Path) -> Json:
    """Names and defaults of the `parameters` cell of the notebook at `path`; `{}` without such a cell.

    Raises `ParameterError` where a default is no literal.
    """
    cells = read_notebook(path).cells
    sources = [c.source for c in cells if c.cell_type == "code" and TAG in c.metadata.get("tags", [])]
    return defaults(sources[0], path.stem) if sources else {}


def defaults(source: str, notebook: str) -> Json:
    """Assigned names and their literal values in the cell `source`, in order."""
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise ParameterError(f"{notebook}: its parameters cell is no Python, {error.msg}") from error
    return {name: _literal(value, name, notebook) for name, value in _assignments(statements)}


def _assignments(statements: Sequence[ast.stmt]) -> list[tuple[str, ast.expr]]:
    found: list[tuple[str, ast.expr]] = []
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.append((name, value))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.append((name, value))
    return found


def _literal(value: ast.expr, name: str, notebook: str) -> Any:
    try:
        return ast.literal_eval(value)
    except ValueError as error:
        raise ParameterError(f"{notebook}: the default of the parameter {name} is no literal") from error


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """`name=value` texts as a mapping. Raises `ParameterError` for another form or a repeated name."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise ParameterError(f"-p takes name=value, not {text!r}")
        if name.strip() in found:
            raise ParameterError(f"the parameter {name.strip()} is given twice")
        found[name.strip()] = value
    return found


def passed(given: Mapping[str, str], known: Mapping[str, Json]) -> dict[str, Json]:
    """Typed values per notebook of the texts `given`, for the defaults `known` per notebook.

    Each notebook gets those that it has. Raises `ParameterError` for a name that none has, with close names,
    and for a value that does not fit the default's type.
    """
    names = {name for parameters in known.values() for name in parameters}
    for name in given:
        if name not in names:
            where = ", ".join(known)
            raise ParameterError(f"unknown parameter {name!r} of {where}{suggestion(name, names)}")
    return {
        notebook: {
            name: typed(name, text, parameters[name]) for name, text in given.items() if name in parameters
        }
        for notebook, parameters in known.items()
    }


def suggestion(name: str, names: Iterable[str]) -> str:
    """`: did you mean …?`, or which names there are."""
    known = sorted(names)
    close = difflib.get_close_matches(name.lower(), [n.lower() for n in known], n=3, cutoff=0.6)
    found = [n for n in known if n.lower() in close]
    if found:
        return f": did you mean {' or '.join(found)}?"
    return f": there are {', '.join(known)}" if known else ": there are none"


def typed(name: str, text: str, default: Any) -> Any:
    """`text` as a value of the type of `default`; a list may be written `1,8,16`. Raises `ParameterError`."""
    value = _read(text, default)
    if default is None or _fits(value, default):
        return list(value) if isinstance(value, tuple) else value
    raise ParameterError(f"the parameter {name} takes {_kind(default)} such as {default!r}, not {text!r}")


def _read(text: str, default: Any) -> Any:
    """The literal in `text`, or `text` itself; plain words and numbers are text where text is wanted."""
    if isinstance(default, bool):
        return {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}.get(text.strip().lower(), text)
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        words = [word.strip() for word in text.split(",")]
        return words if isinstance(default, list | tuple) and text.strip() else text
    if isinstance(default, str):
        return value if isinstance(value, str) else text
    if isinstance(default, list | tuple) and not isinstance(value, list | tuple):
        return [value]
    return float(value) if isinstance(default, float) and type(value) is int else value


def _fits(value: Any, default: Any) -> bool:
    if isinstance(default, list | tuple):
        kinds = {type(item) for item in default}
        same = len(kinds) != 1 or all(_fits(item, default[0]) for item in value)
        return isinstance(value, list | tuple) and same
    return type(value) is type(default) or (isinstance(default, float) and type(value) is int)


def _kind(default: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", dict: "a dict"}
    return names.get(type(default), "a list")
