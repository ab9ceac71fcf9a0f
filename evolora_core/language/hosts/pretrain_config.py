"""How we pretrain a host of our own: the key `pretrain` of a host file."""

from pydantic import Field, model_validator

from evolora_core.engine.strict import Decay, Strict, load_yaml
from evolora_core.errors import ConfigError
from evolora_core.foreign.nearest import did_you_mean
from evolora_core.language.hosts.description import DESCRIPTIONS, HostDescription, load_descriptions


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


class TrainedHost(HostDescription):
    """The file of a host that we train ourselves."""

    pretrain: PretrainConfig = Field(description="how we train it")


def pretrain_config(name: str) -> PretrainConfig:
    """How the described host `name` is trained. ConfigError where it is not, or where its file is faulty."""
    descriptions = load_descriptions()
    description = descriptions.get(name)
    if description is None:
        near = did_you_mean(name, descriptions)
        raise ConfigError(f"host {name!r}: there is no configs/hosts/{name}.yaml{near}; describe it there, as nano is")
    if description.pretrain is None:
        raise ConfigError(f"configs/hosts/{name}.yaml: key 'pretrain': missing; add it, as nano.yaml has it")
    return load_yaml(DESCRIPTIONS / f"{name}.yaml", TrainedHost).pretrain
