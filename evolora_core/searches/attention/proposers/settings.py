"""Settings of whoever proposes programs."""

from typing import Literal

from pydantic import Field, model_validator

from evolora_core.engine.strict import Strict


class PriceSettings(Strict):
    """What a model costs, in US dollars per million tokens."""

    prompt: float = Field(0.0, ge=0, description="US dollars per million prompt tokens")
    completion: float = Field(0.0, ge=0, description="US dollars per million answer tokens")


class ProposerSettings(Strict):
    """Who proposes programs. What a search may ask is limited by calls, tokens and money, each search for itself."""

    kind: Literal["grammar", "endpoint", "replay"] = Field(
        "grammar",
        description="grammar: offline; endpoint: OpenAI-compatible, at EVOLORA_LLM_URL; replay: recorded answers",
    )
    model: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="model that is asked; none: EVOLORA_LLM_MODEL's, or the record's",
    )
    temperature: float = Field(0.8, ge=0, le=10, description="of its answers")
    max_tokens: int = Field(4096, ge=1, le=1_000_000, description="most tokens of an answer")
    calls: int | None = Field(1000, ge=1, le=1_000_000, description="most questions of a search; null: without a limit")
    tokens: int | None = Field(None, ge=1, description="most tokens of a search, prompts and answers; none: no limit")
    usd: float | None = Field(None, gt=0, description="most money of a search, by the prices; none: no limit")
    prices: PriceSettings = Field(PriceSettings(), description="what the model costs")
    recorded: str | None = Field(
        None, description="file of the answers that are replayed: calls.jsonl of a search, or those of its seeds joined"
    )

    @model_validator(mode="after")
    def _fits(self) -> "ProposerSettings":
        fields = type(self).model_fields
        given = [name for name, field in fields.items() if name != "kind" and getattr(self, name) != field.default]
        if self.kind == "grammar" and given:
            raise ValueError("a grammar is asked for nothing else; leave the other keys out, or name another kind")
        if (self.kind == "replay") != (self.recorded is not None):
            raise ValueError("kind replay needs `recorded`, the file of the answers, and no other kind has it")
        if self.usd is not None and self.prices == PriceSettings():
            raise ValueError("usd: without prices nothing costs money; name them")
        return self
