"""Which searches there are: the packages in `evolora_core/searches`, and the modules that installed distributions name
as entry points of the group `evolora.searches`. Finding one imports nothing, so that the store can have the SQL of all.
"""

from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

GROUP = "evolora.searches"
ROOT = Path(__file__).parents[2]  # where this project is; asking Python would find any folder `tasks` on its path
OURS = ("evolora_core", "tasks", "flows")


@cache
def search_modules() -> dict[str, str]:
    """Name of each search -> its module. Ours come first; another's of the same name is not seen."""
    folders = sorted(path.parent.name for path in (ROOT / "evolora_core" / "searches").glob("*/__init__.py"))
    theirs = {point.name: point.module for point in metadata.entry_points(group=GROUP)}
    return theirs | {name: f"evolora_core.searches.{name}" for name in folders}


@cache
def source(module: str) -> Path | None:
    """The file of a module, found without importing it; None if there is no such module."""
    top, *rest = module.split(".")
    if top in OURS:
        base = ROOT.joinpath(top, *rest)
    else:
        try:
            spec = find_spec(top)  # of a name without dots: nothing is imported
        except ValueError:  # a module without a file
            return None
        if spec is None or spec.origin is None:
            return None
        origin = Path(spec.origin)
        base = (origin.parent if origin.name == "__init__.py" else origin.with_suffix("")).joinpath(*rest)
    return next((file for file in (base / "__init__.py", base.with_suffix(".py")) if file.is_file()), None)


@cache
def sql_folders() -> dict[str, Path]:
    """Name of each search that has SQL -> the folder `sql` beside its module, with its tables and views."""
    files = {name: source(module) for name, module in sorted(search_modules().items())}
    folders = {name: file.parent / "sql" for name, file in files.items() if file is not None}
    return {name: folder for name, folder in folders.items() if folder.is_dir()}
