"""The frameworks by name. Whoever adds one enters it here and puts its template beside the others."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from evolora_core.errors import ConfigError
from evolora_core.foreign.nearest import nearest_or_all
from evolora_core.searches.attention.frameworks.base import Framework
from evolora_core.searches.attention.limits import MOST_FLOPS, MOST_PARAMETERS

_TEMPLATES = Path(__file__).parent / "templates"

_FOR_ALL = (
    "Only the text between the lines EVOLVE-BLOCK-START and EVOLVE-BLOCK-END may change; all else stays byte for byte.",
    "The names of the classes in the block, their __init__(self, dim, heads) and the signature and shapes of their "
    "forward must stay.",
    "Token i must depend on tokens 0 to i alone: no statistic over the whole sequence, no division by its length, no "
    "blocks of tokens that are summed up before they have ended.",
    "It must work for any batch size and any length from 1 up; every row of the batch is on its own.",
    "All values and gradients must be finite, and every parameter must receive a gradient.",
    "Each call must give the same for the same input: no state from call to call, no randomness in forward.",
    f"It may add small parameters of its own: at most {100 * (MOST_PARAMETERS - 1):.0f} % more than the baseline's "
    f"model has, and at most {MOST_FLOPS:g} times its FLOPs.",
    "It must not import anything, open files or change settings of torch; torch, math, F, nn and Tensor are there.",
    "The class Prepare may say `positions = False`: then the host leaves out its own sinusoidal positions.",
)


def _framework(name: str, core: str, *rules: str) -> Framework:
    source = (_TEMPLATES / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    return Framework(name, source, ("Prepare", core, "Finish"), (*rules, *_FOR_ALL))


FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(
    {
        framework.name: framework
        for framework in (
            _framework(
                "coefficient-dynamics",
                "Coefficients",
                "Coefficients finds how much of each past value a token takes, from queries and keys, never from "
                "values: alpha_ij = read-out(q_i A_i ... A_j+1 b_j k_j) / normaliser_i.",
                "What may change: the read-out (exp, identity, relu squared, ...), how a key fades or turns on its way "
                "(A), how it is scaled (b), the normaliser, biases by distance, gates, temperatures.",
                "Queries, keys and values may be changed in Prepare, the mixed values in Finish.",
            ),
            _framework(
                "test-time-regression",
                "Regression",
                "Regression fits, at every token i, a map from keys to values on the pairs (k_j, v_j), j <= i, and "
                "returns what the map says at q_i.",
                "What may change: the class of maps (locally constant, locally linear, linear), the weights of the "
                "past (kernel, decay, gates), and how it is fitted (closed form, ridge, one gradient step a token).",
                "Queries, keys and values may be changed in Prepare, the answers in Finish.",
            ),
            _framework(
                "matrix-mixer",
                "Mixer",
                "Mixer computes the matrix that mixes the values of the tokens, one for each head, from the layer's "
                "input and parameters of its own.",
                "What may change: the class of the matrix (softmax, low rank, Toeplitz, semiseparable, sums and "
                "products of such), as long as M_ij depends on the tokens up to i alone.",
                "Values may be changed in Prepare, the mixed values in Finish; a Mixer with projections query and key "
                "draws them first.",
            ),
        )
    }
)


def get_framework(name: str) -> Framework:
    """The framework of that name. ConfigError names the nearest one."""
    if name not in FRAMEWORKS:
        raise ConfigError(f"framework {name[:60]!r} is unknown; {nearest_or_all(name, FRAMEWORKS)}")
    return FRAMEWORKS[name]
