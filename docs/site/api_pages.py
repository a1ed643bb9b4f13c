"""The reference of the Python API: a page for each public module with the names that it exports.

A name that several modules export is described in the most deeply nested one, to which the others link.
"""

from __future__ import annotations

import importlib
from types import ModuleType

MODULES = {
    "millstream.datastream": "Environment and streams",
    "millstream.datastream.functions": "Functions",
    "millstream.datastream.expressions": "Expressions over columns",
    "millstream.datastream.state": "State",
    "millstream.datastream.window": "Windows",
    "millstream.datastream.connectors": "Connectors",
    "millstream.datastream.connectors.file_system": "Files",
    "millstream.datastream.connectors.datagen": "Generated data",
    "millstream.datastream.connectors.number_seq": "Sequences of numbers",
    "millstream.datastream.formats.avro": "Avro",
    "millstream.datastream.formats.csv": "CSV",
    "millstream.datastream.formats.json": "JSON",
    "millstream.datastream.formats.orc": "ORC",
    "millstream.datastream.formats.parquet": "Parquet",
    "millstream.common": "Types, time, watermarks, configuration",
    "millstream.metrics": "Metrics",
    "millstream.spark": "Spark",
}


def pages() -> dict[str, str]:
    """Returns the Markdown of the pages by their paths in the site."""
    modules = {name: importlib.import_module(name) for name in MODULES}
    homes: dict[int, str] = {}
    for name in sorted(modules, key=lambda name: name.count("."), reverse=True):
        for value in _exported(modules[name]).values():
            homes.setdefault(id(value), name)
    index = ["# Python API", "", "Names, parameters and results are those of PyFlink, wherever PyFlink has them.", ""]
    index += ["| module | |", "|---|---|"]
    found: dict[str, str] = {}
    for name, title in MODULES.items():
        file = _file(name)
        index.append(f"| [`{name}`]({file}) | {title} |")
        found[f"reference/api/{file}"] = _page(name, title, modules[name], homes)
    found["reference/api/index.md"] = "\n".join(index) + "\n"
    return found


def files() -> list[str]:
    """Returns the file names of the pages in the order of the navigation."""
    return [_file(name) for name in MODULES]


def _file(module: str) -> str:
    return f"{module.removeprefix('millstream.')}.md"


def _exported(module: ModuleType) -> dict[str, object]:
    return {name: getattr(module, name) for name in sorted(module.__all__)}


def _page(name: str, title: str, module: ModuleType, homes: dict[int, str]) -> str:
    exported = _exported(module)
    own = [key for key, value in exported.items() if homes[id(value)] == name]
    others = {key: homes[id(value)] for key, value in exported.items() if homes[id(value)] != name}
    lines = [f"# {title}", "", f"`{name}`: {(module.__doc__ or '').strip().splitlines()[0]}", ""]
    for home in dict.fromkeys(others.values()):
        names = ", ".join(f"`{key}`" for key, where in others.items() if where == home)
        lines += [f"Also exported, and described in [`{home}`]({_file(home)}): {names}.", ""]
    for key in own:
        lines.append(f"::: {name}.{key}")
        if inherited := _inherited(exported[key], homes):
            lines += ["    options:", f"      inherited_members: [{', '.join(inherited)}]"]
        lines.append("")
    return "\n".join(lines)


def _inherited(value: object, homes: dict[int, str]) -> list[str]:
    """Returns the members that a class inherits from classes of Millstream that have no page."""
    bases = value.__mro__[1:] if isinstance(value, type) else ()
    ours = [base for base in bases if base.__module__.startswith("millstream.") and id(base) not in homes]
    return list(dict.fromkeys(name for base in ours for name in vars(base) if not name.startswith("_")))
