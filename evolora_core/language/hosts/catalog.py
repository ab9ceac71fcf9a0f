"""Which hosts there are: the description files, what is fetched into EVOLORA_HOME, and the files a word stands for."""

import re
from dataclasses import dataclass
from pathlib import Path

from evolora_core.engine.home import home_path
from evolora_core.errors import HostError
from evolora_core.foreign.files import Unfit, check_regular
from evolora_core.foreign.nearest import did_you_mean
from evolora_core.foreign.text import one_line
from evolora_core.language.hosts.description import (
    DESCRIPTIONS,
    HostDescription,
    TemplateDescription,
    load_description,
    load_descriptions,
)
from evolora_core.language.hosts.gguf import check_magic

LONGEST_HUB_ID = 100  # bytes; what the hub allows is 96
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")  # of a described host


@dataclass(frozen=True)
class HostListing:
    """One line of `evolora host list`."""

    name: str
    summary: str
    parameters: int
    licence: str
    source: str  # shipped, trained, hub or package
    ready: bool  # its weights are on this machine
    folder: str  # where they are, or will be


@dataclass(frozen=True)
class HostPlace:
    """A host before it is loaded."""

    name: str
    path: Path  # a folder or a GGUF file
    plain: TemplateDescription  # how it is prompted if it has no chat template
    ready: bool  # the path exists
    foreign: bool = True  # not one that configs/hosts describes: anybody may have made it


def host_folder(description: HostDescription) -> Path:
    """Where a described host's weights are, or will be once fetched or trained."""
    if description.source == "shipped":
        return Path(__file__).parent / description.name
    return home_path() / "hosts" / description.name


def training_folder(name: str) -> Path:
    """Where `evolora host pretrain NAME` writes: a trained host's place, or one beside a shipped host's."""
    description = load_descriptions().get(name)
    if description is not None and description.source == "trained":
        return host_folder(description)
    return home_path() / "hosts" / f"{name}-pretrained"


def is_complete(folder: Path) -> bool:
    """Whether a host is there. config.json means all of it: fetching renames the folder, training moves it last."""
    return (folder / "config.json").is_file()


def list_hosts() -> list[HostListing]:
    """Every described host, by name. ConfigError for a faulty host file."""
    return [
        HostListing(
            name=description.name,
            summary=description.summary,
            parameters=description.parameters,
            licence=description.licence,
            source=description.source,
            ready=is_complete(host_folder(description)),
            folder=str(host_folder(description)),
        )
        for description in load_descriptions().values()
    ]


def find_host(name_or_path: str) -> HostPlace:
    """What a user's word stands for: a described name, else an existing folder or GGUF file, else a hub id owner/name.
    HostError with the nearest name where it is none of them."""
    if NAME.fullmatch(name_or_path) and (own := DESCRIPTIONS / f"{name_or_path}.yaml").is_file():
        description = load_description(own)
        folder = host_folder(description)
        return HostPlace(description.name, folder, description.template, is_complete(folder), foreign=False)
    if path := _existing(name_or_path):
        name = path.resolve().stem if path.is_file() else path.resolve().name
        return HostPlace(name, path, TemplateDescription(), ready=True)
    if is_hub_id(name_or_path):
        folder = home_path() / "hosts" / name_or_path.replace("/", "--")
        return HostPlace(name_or_path, folder, TemplateDescription(), is_complete(folder))
    known = load_descriptions()
    mend = did_you_mean(name_or_path, known) or f"; known: {', '.join(known)}"
    raise HostError(f"host {one_line(name_or_path, 200)!r}: no such name, folder or GGUF file{mend}")


def names_of(name: str) -> set[str]:
    """What a host is called elsewhere: its own name, and for a described one that of its repository."""
    described = DESCRIPTIONS / f"{name}.yaml"
    known = NAME.fullmatch(name) and described.is_file()
    return {name, load_description(described).repository} if known else {name}


def address_of(word: str) -> str:
    """What others load a host by: its id on the hub, else the path of its folder or file. HostError as above."""
    place = find_host(word)
    names = {place.name} if place.foreign else names_of(place.name)
    return next((name for name in names if "/" in name), str(place.path.resolve()))


def _existing(word: str) -> Path | None:
    """The folder or GGUF file of that name, if there is one. HostError for a file of another kind."""
    try:
        path = Path(word).expanduser()
        if not path.exists():
            return None
        check_regular(path)
        if path.is_file():
            check_magic(path)
    except Unfit as error:
        raise HostError(f"host {one_line(word, 200)}: {error}") from error
    except (OSError, ValueError, RuntimeError):  # no such name can be, such as ~nobody
        return None
    return path


def is_hub_id(word: str) -> bool:
    """owner/name, without a file name's ending or a path's dots."""
    parts = word.split("/")
    return (
        len(word.encode("utf-8", "surrogatepass")) <= LONGEST_HUB_ID
        and len(parts) == 2
        and all(part and part[0] not in ".~" for part in parts)
        and not word.endswith(".gguf")
    )
