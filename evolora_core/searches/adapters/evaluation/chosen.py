"""What a seed is asked of holdout files: the facts that stage `holdouts` hands on."""

from pydantic import BaseModel, RootModel


class Count(BaseModel):
    """Of one file: items that are asked, items that are left out, and the families of those that are asked."""

    items: int
    left_out: int
    families: list[str]


class Chosen(RootModel[dict[str, Count]]):
    """What is asked of each file, by the name of its split."""

    @property
    def families(self) -> list[str]:
        """The families of all files."""
        return sorted({family for own in self.root.values() for family in own.families})
