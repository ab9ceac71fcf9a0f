"""The grammar of coefficient dynamics (Sieber et al. 2025, arXiv 2510.09389).

alpha_ij = phi(q_i A_i ... A_j+1 b_j k_j) / eta_i: `kernel` is phi, `evolution` A, `scale` b, `normaliser` eta. Where A
is a number, it stands outside of phi, as in attention with a forget gate: for a linear phi that is the same.
"""

from evolora_core.searches.attention.grammar import shared, weighting
from evolora_core.searches.attention.grammar.genes import Gene, Genome, Grammar
from evolora_core.searches.attention.grammar.writing import Part, method_text

NAME = "coefficient-dynamics"

CORE = (
    Gene(
        "kernel",
        "core",
        {
            "exp": "the exponential of the scores",
            "relu2": "the square of the positive part of 1 + score",
            "sigmoid": "the sigmoid of the scores",
            "poly": "the square of 1 + score",
            "elu": "linear attention: products of the features ELU + 1",
        },
    ),
    Gene("normaliser", "core", weighting.NORMALISER),
    Gene(
        "evolution",
        "core",
        {
            **weighting.FADING,
            "channel": "each token says how fast the past is forgotten, channel by channel",
            "delta": "each token takes its own direction out of the keys before it (DeltaNet)",
        },
    ),
    Gene(
        "scale",
        "core",
        {
            "fixed": "scores of fixed scale",
            "head": "a learned temperature for each head",
            "input": "keys scaled by a gate of their token, head by head",
            "position": "scores that grow with a learned power of the position",
        },
    ),
    Gene("window", "core", weighting.WINDOW),
    Gene("heads", "core", weighting.HEADS),
    Gene(
        "difference",
        "core",
        {"none": "one set of weights", "half": "the weights of one half of the channels less a share of the other's"},
    ),
    Gene("blend", "core", weighting.BLEND),
)
GENES = (*shared.PREPARE, *CORE, *shared.FINISH)
KERNELS = {  # of `scores`; exp is written apart
    "exp": "exp",
    "relu2": "F.relu(1 + scores).square()",
    "sigmoid": "torch.sigmoid(scores)",
    "poly": "(1 + scores).square()",
    "elu": "scores",
}


def render(genome: Genome) -> str:
    """The program of a genome."""
    slots = (
        (shared.PREPARE, shared.prepare_parts(genome), "q, k, v"),
        (CORE, _core(genome), "alpha"),
        (shared.FINISH, shared.finish_parts(genome), "y"),
    )
    return shared.written(NAME, genome, slots)


def _core(genome: Genome) -> list[Part]:
    """The parts of `Coefficients`."""
    fading, window = genome["evolution"], genome["window"]
    faded = fading in weighting.FADING and fading != "none"
    found = [
        *_scale(genome["scale"], genome["kernel"]),
        *_features(genome["kernel"]),
        *_scores(genome),
        weighting.band(window, weighting.needs_ages(fading)),
        *weighting.fade(fading, window),
        *weighting.weights(KERNELS[genome["kernel"]], genome["normaliser"], faded, signed=fading == "delta"),
    ]
    if genome["difference"] == "half":
        found = _difference(found)
    hidden = genome["difference"] == "half" and genome["blend"] == "mostly-average"
    again = [weighting.band(window, False)] if hidden else []
    return [*found, *weighting.talking(genome["heads"]), *again, *weighting.blend(genome["blend"])]


def _scale(scale: str, kernel: str) -> list[Part]:
    """The factors of q and k. The features of ELU + 1 need no 1/sqrt(d)."""
    divided = "" if kernel == "elu" else " / math.sqrt(q.shape[-1])"
    if scale == "head":
        init = "self.temperature = nn.Parameter(torch.ones(heads, 1, 1))"
        return [Part(init=init, forward=f"q = q * self.temperature{divided}")]
    if scale == "position":
        init = "self.growth = nn.Parameter(torch.full((heads, 1, 1), 0.1))"
        forward = f"""
            places = torch.arange(1.0, q.shape[-2] + 1, device=q.device)[:, None]  # 1 for the first token
            q = q * places**self.growth{divided}
        """
        return [Part(init=init, forward=forward)]
    fixed = [Part(forward=f"q = q{divided}")] if divided else []
    if scale == "input":
        forward = "k = k * (2 * torch.sigmoid(self.input(x))).transpose(1, 2)[..., None]  # about 1 at first"
        return [*fixed, Part(init="self.input = nn.Linear(dim, heads)", forward=forward)]
    return fixed


def _features(kernel: str) -> list[Part]:
    return [Part(forward="q, k = F.elu(q) + 1, F.elu(k) + 1")] if kernel == "elu" else []


def _scores(genome: Genome) -> list[Part]:
    if genome["evolution"] == "channel":
        width = "dim // heads // 2" if genome["difference"] == "half" else "dim // heads"
        init = f"""
            self.pace = nn.Linear(dim, heads)
            self.rate = nn.Parameter(torch.linspace(-3, 1, {width}).repeat(heads, 1, 1))  # of each channel
        """
        # exp(60) and its inverse times any score are finite in float32; 240 tokens at the fastest rate reach it.
        forward = """
            # What is left of a channel after t tokens is exp(left_t); a quarter a token is the most that is lost.
            pace = torch.sigmoid(self.pace(x)).transpose(1, 2)[..., None]  # [B, H, T, 1]
            left = (-0.25 * pace * torch.sigmoid(self.rate)).cumsum(2).clamp(min=-60.0)
            scores = torch.tril((q * left.exp()) @ (k * (-left).exp()).transpose(-2, -1))
        """
        return [Part(init=init, forward=forward)]
    if genome["evolution"] == "delta":
        forward = """
            # q_i (I - step_i u_i u_i^T) ... (I - step_j+1 u_j+1 u_j+1^T) u_j for all i, j: one triangular system.
            size = k.norm(dim=-1, keepdim=True)
            unit = k / (size + 1e-6)
            step = torch.sigmoid(self.step(x)).transpose(1, 2)[..., None]  # [B, H, T, 1]
            overlap = torch.tril(step * unit @ unit.transpose(-2, -1), -1)
            asked = torch.tril(q @ unit.transpose(-2, -1))
            scores = torch.linalg.solve_triangular(overlap, asked, upper=False, left=False, unitriangular=True)
            scores = scores * size.transpose(-2, -1)
        """
        return [Part(init="self.step = nn.Linear(dim, heads)", forward=forward)]
    return [Part(forward="scores = q @ k.transpose(-2, -1)")]


def _difference(found: list[Part]) -> list[Part]:
    """The code of the weights as a method, called for both halves (after Ye et al. 2024). Every other channel: rotary
    positions pair channel c with c + d/2, and each half has to have whole pairs.
    """
    head = "weights(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor"
    method = method_text(head, "The weights of one half of the channels.", found, "alpha")
    forward = """
        other = torch.sigmoid(self.other) * self.weights(q[..., 1::2], k[..., 1::2], x)
        alpha = self.weights(q[..., ::2], k[..., ::2], x) - other
    """
    init = "self.other = nn.Parameter(torch.full((heads, 1, 1), -1.0))  # a share of 27 % at first"
    return [*(Part(init=part.init) for part in found), Part(init=init, methods=method, forward=forward)]


GRAMMAR = Grammar(NAME, GENES, render)
