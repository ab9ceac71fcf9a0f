"""How an arm will practise, as far as the prices of its answers depend on it."""

from pydantic import Field

from evolora_core.engine.strict import Strict


class Practice(Strict):
    """What is priced, and how large the passes of a population are."""

    answers: int = Field(description="answers that the bare host is asked for, over all cells, at most")
    temperature: float = Field(description="at which; 0: greedily")
    population: int = Field(description="adapters that are trained together")
    slots: int = Field(description="slots of the largest population, with newborns and candidates")
    rank: int = Field(description="the largest rank")
    scale: float = Field(description="ΔW = scale · B A")
    batch_rows: int = Field(description="answers in a learning step, over all learners")
    break_even_accuracy: float = Field(description="accuracy at which rewards pay exactly for the host's answers")
