"""Genes that frameworks share: what is done to queries, keys and values before they meet, and to the mixed values.

What is learned starts where it does little, so that a change of one gene does not begin far from the baseline.
"""

from collections.abc import Sequence

from evolora_core.searches.attention.grammar.genes import Gene, Genome
from evolora_core.searches.attention.grammar.writing import Part, class_text, program_text

POSITIONS = {
    "sinusoids": "the host's sinusoidal positions",
    "rope": "rotary positions in place of the host's",
    "none": "no positions at all",
}
QK_NORM = {"none": "queries and keys as they are", "norm": "queries and keys of unit scale (RMS norm, learned)"}
VALUE_GATE = {"none": "values as they are", "gate": "values gated by their own token, head by head"}

PREPARE = (
    Gene("position", "prepare", POSITIONS),
    Gene("qk-norm", "prepare", QK_NORM),
    Gene(
        "local",
        "prepare",
        {
            "none": "tokens look at themselves alone before they meet",
            "shift-k": "keys take a learned share of the token before",
            "shift-v": "values take a learned share of the token before",
            "shift-kv": "keys and values take learned shares of the token before",
            "conv": "queries, keys and values pass a causal convolution over three tokens",
        },
    ),
    Gene("value-gate", "prepare", VALUE_GATE),
)

FINISH = (
    Gene(
        "head-norm",
        "finish",
        {"none": "mixed values as they are", "norm": "mixed values of unit scale in each head (RMS norm, learned)"},
    ),
    Gene(
        "gate",
        "finish",
        {
            "none": "no output gate",
            "silu": "output gated by SiLU of the layer's input, channel by channel (low rank)",
            "sigmoid": "output gated by a sigmoid of the layer's input, channel by channel (low rank)",
            "head": "output gated by a sigmoid of the layer's input, head by head",
        },
    ),
)


def written(framework: str, genome: Genome, slots: Sequence[tuple[Sequence[Gene], Sequence[Part], str]]) -> str:
    """A program: of each slot the genes that decide about it, the parts of its class, and what it returns.

    A slot all of whose genes are the baseline's keeps the text of the template.
    """
    changed = {}
    for slot, (genes, parts, result) in enumerate(slots):
        words = [gene.says[genome[gene.name]] for gene in genes if genome[gene.name] != gene.choices[0]]
        if words:
            says = "; ".join(words) + "."
            changed[slot] = class_text(framework, slot, says[:1].upper() + says[1:], parts, result)
    return program_text(framework, changed)


def no_host_positions(position: str) -> list[Part]:
    """The class attribute by which `Prepare` tells the host to leave its own positions out."""
    return [] if position == "sinusoids" else [Part(attributes="positions = False  # the host adds none of its own")]


def prepare_parts(genome: Genome) -> list[Part]:
    """The parts of `Prepare` that sees q, k, v and x."""
    local = genome["local"]
    shifted = local.removeprefix("shift-") if local.startswith("shift-") else ""
    return [
        *no_host_positions(genome["position"]),
        *[_shift(name) for name in shifted],
        *(_conv("qkv") if local == "conv" else []),
        *qk_norm(genome["qk-norm"]),
        *rope(genome["position"]),
        *value_gate(genome["value-gate"]),
    ]


def values_parts(local: str, gate: str) -> list[Part]:
    """The parts of a `Prepare` that sees v and x: `local` is none, shift or conv."""
    mixed = {"none": [], "shift": [_shift("v")], "conv": _conv("v")}
    return [*mixed[local], *value_gate(gate)]


def finish_parts(genome: Genome) -> list[Part]:
    """The parts of `Finish`."""
    norm, gate = genome["head-norm"], genome["gate"]
    parts = []
    if norm == "norm":
        init = "self.norm = nn.RMSNorm(dim // heads, eps=1e-6)"
        parts.append(Part(init=init, forward="y = self.norm(y)"))
    if gate == "head":
        forward = "y = y * torch.sigmoid(self.gate(x)).transpose(1, 2)[..., None]  # one number for each head and token"
        parts.append(Part(init="self.gate = nn.Linear(dim, heads)", forward=forward))
    elif gate != "none":
        function = {"silu": "F.silu", "sigmoid": "torch.sigmoid"}[gate]
        forward = f"""
            gate = {function}(self.gate(x))  # [B, T, D]
            y = y * gate.view(*gate.shape[:2], y.shape[1], -1).transpose(1, 2)
        """
        init = """
            # Of low rank, as in Kimi Linear: a whole matrix alone is 8 % more parameters.
            self.gate = nn.Sequential(nn.Linear(dim, dim // 4, bias=False), nn.Linear(dim // 4, dim, bias=False))
        """
        parts.append(Part(init=init, forward=forward))
    return parts


def _shift(name: str) -> Part:
    init = f"""
        self.shift_{name} = nn.Parameter(torch.full((heads, 1, dim // heads), 0.25))  # share of the token before
    """
    return Part(
        init=init, forward=f"{name} = {name} + self.shift_{name} * (F.pad({name}, (0, 0, 1, 0))[..., :-1, :] - {name})"
    )


def _conv(names: str) -> list[Part]:
    """A convolution over the token and the two before, channel by channel (Primer, So et al. 2021, has it there)."""
    methods = '''
        def convolved(self, z: Tensor, taps: Tensor) -> Tensor:
            """A causal convolution over three tokens, channel by channel: `z` [B, H, T, d], `taps` [3, d]."""
            before = F.pad(z, (0, 0, 2, 0))
            return taps[0] * z + taps[1] * before[..., 1:-1, :] + taps[2] * before[..., :-2, :]
    '''
    init = "# Each starts as the token itself; heads share them, so that small models hardly grow.\n" + "\n".join(
        f"self.taps_{name} = nn.Parameter(torch.eye(3, 1).repeat(1, dim // heads))" for name in names
    )
    forward = "\n".join(f"{name} = self.convolved({name}, self.taps_{name})" for name in names)
    return [Part(init=init, methods=methods, forward=forward)]


def qk_norm(choice: str) -> list[Part]:
    """RMS norm of each head's queries and keys, with a learned scale for each channel."""
    if choice == "none":
        return []
    init = """
        self.norm_q = nn.RMSNorm(dim // heads, eps=1e-6)
        self.norm_k = nn.RMSNorm(dim // heads, eps=1e-6)
    """
    return [Part(init=init, forward="q, k = self.norm_q(q), self.norm_k(k)")]


def rope(position: str) -> list[Part]:
    """Rotary positions of q and k."""
    if position != "rope":
        return []
    methods = '''
        def turned(self, z: Tensor) -> Tensor:
            """Rotary positions (Su et al. 2021): channels c and c + d/2 of `z` [B, H, T, d] turn with the position."""
            half = z.shape[-1] // 2
            rates = 10000.0 ** (-torch.arange(half, device=z.device) / half)
            angles = torch.arange(z.shape[-2], device=z.device)[:, None] * rates  # [T, d/2]
            first, second = z[..., :half], z[..., half:]
            cos, sin = angles.cos(), angles.sin()
            return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
    '''
    return [Part(methods=methods, forward="q, k = self.turned(q), self.turned(k)")]


def value_gate(choice: str) -> list[Part]:
    """A gate of the values, one number for each head and token."""
    if choice == "none":
        return []
    forward = "v = v * (2 * torch.sigmoid(self.gate_v(x))).transpose(1, 2)[..., None]  # about 1 at first"
    return [Part(init="self.gate_v = nn.Linear(dim, heads)", forward=forward)]
