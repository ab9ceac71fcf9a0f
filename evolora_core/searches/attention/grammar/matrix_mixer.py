"""The grammar of matrix mixers (Hwang, Lahoti, Dao, Gu 2024, arXiv 2407.09941).

M is a matrix whose element i, j comes from what tokens i and j say of themselves (`kind`), times what their distance or
the tokens between say (`distance`), normalised row by row (`normaliser`), plus a structured part (`blend`).
"""

from evolora_core.searches.attention.grammar import shared, weighting
from evolora_core.searches.attention.grammar.genes import Gene, Genome, Grammar
from evolora_core.searches.attention.grammar.writing import Part

NAME = "matrix-mixer"

PREPARE = (
    Gene(
        "local",
        "prepare",
        {
            "none": "values of their own token alone",
            "shift": "values take a learned share of the token before",
            "conv": "values pass a causal convolution over three tokens",
        },
    ),
    Gene("value-gate", "prepare", shared.VALUE_GATE),
)
POSITION = Gene("position", "core", shared.POSITIONS)
CORE = (
    POSITION,
    Gene("qk-norm", "core", shared.QK_NORM),
    Gene(
        "look",
        "core",
        {
            "none": "each token speaks for itself",
            "shift": "what a token offers takes a learned share of the token before",
            "conv": "what tokens ask and offer passes a causal convolution over three tokens",
        },
    ),
    Gene(
        "keys",
        "core",
        {
            "own": "every head has its own queries and keys",
            "shared": "all heads share one set of keys",
            "tied": "queries and keys are the same projection",
        },
    ),
    Gene(
        "kind",
        "core",
        {
            "exp": "the exponential of q k",
            "low-rank": "q k itself, a matrix of low rank",
            "elu": "products of the features ELU + 1, a matrix of low rank without negative elements",
            "cauchy": "1 / (1 + distance squared of q and k)",
            "fourier": "1 plus the mean cosine of the angles q - k",
        },
    ),
    Gene("normaliser", "core", weighting.NORMALISER),
    Gene("distance", "core", weighting.FADING),
    Gene("window", "core", weighting.WINDOW),
    Gene("heads", "core", weighting.HEADS),
    Gene(
        "blend",
        "core",
        {**weighting.BLEND, "toeplitz": "a learned matrix beside it that knows distances alone (Toeplitz)"},
    ),
)
GENES = (*PREPARE, *CORE, *shared.FINISH)
SPLIT = '''
    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)
'''


def render(genome: Genome) -> str:
    """The program of a genome."""
    prepare = [
        *shared.no_host_positions(genome["position"]),
        *shared.values_parts(genome["local"], genome["value-gate"]),
    ]
    slots = (
        ((POSITION, *PREPARE), prepare, "v"),  # Mixer turns queries and keys, Prepare tells the host so
        (CORE, _core(genome), "alpha"),
        (shared.FINISH, shared.finish_parts(genome), "y"),
    )
    return shared.written(NAME, genome, slots)


def _core(genome: Genome) -> list[Part]:
    """The parts of `Mixer`."""
    fading, window, toeplitz = genome["distance"], genome["window"], genome["blend"] == "toeplitz"
    kind = genome["kind"]
    written = {
        "exp": "exp",
        "low-rank": "scores",
        "elu": "scores",
        "cauchy": "scores.reciprocal()",
        "fourier": "scores",
    }
    return [
        _projections(genome["keys"], genome["look"]),
        *shared.qk_norm(genome["qk-norm"]),
        *shared.rope(genome["position"]),
        _scores(kind),
        weighting.band(window, weighting.needs_ages(fading) or toeplitz),
        *weighting.fade(fading, window),
        *weighting.weights(written[kind], genome["normaliser"], fading != "none", signed=kind == "low-rank"),
        *weighting.talking(genome["heads"]),
        *(_toeplitz(window) if toeplitz else weighting.blend(genome["blend"])),
    ]


def _projections(keys: str, look: str) -> Part:
    """Queries and keys, drawn before all else as in the template."""
    init = "self.heads = heads\nself.query = nn.Linear(dim, dim)"
    if keys != "tied":
        init += "\nself.key = nn.Linear(dim, dim" + (" // heads)  # one for all heads" if keys == "shared" else ")")
    asked, offered, before = "x", "x", ""
    if look == "shift":
        init += "\nself.shift = nn.Parameter(torch.full((dim,), 0.25))  # share of the token before"
        before = "offered = x + self.shift * (F.pad(x, (0, 0, 1, 0))[:, :-1] - x)"
        offered = "offered"
    elif look == "conv":
        init += "\nself.taps = nn.Parameter(torch.eye(3, 1).repeat(1, dim))  # at first the token itself"
        before = """
            before = F.pad(x, (0, 0, 2, 0))
            seen = self.taps[0] * x + self.taps[1] * before[:, 1:-1] + self.taps[2] * before[:, :-2]
        """
        asked = offered = "seen"
    queries = f"self.split(self.query({asked}))"
    if keys == "tied":
        forward = f"q = k = {queries}" if asked == offered else f"q, k = {queries}, self.split(self.query({offered}))"
    elif keys == "shared":
        forward = f"q, k = {queries}, self.key({offered})[:, None]  # k [B, 1, T, d]"
    else:
        forward = f"q, k = {queries}, self.split(self.key({offered}))"
    return Part(init=init, methods=SPLIT, forward=f"{_plain(before)}{forward}")


def _plain(text: str) -> str:
    """Indented lines as lines that others can follow."""
    return "".join(line.strip() + "\n" for line in text.splitlines() if line.strip())


def _scores(kind: str) -> Part:
    width = "math.sqrt(q.shape[-1])"
    written = {
        "exp": f"scores = q @ k.transpose(-2, -1) / {width}",
        "low-rank": f"scores = q @ k.transpose(-2, -1) / {width}",
        "elu": "q, k = F.elu(q) + 1, F.elu(k) + 1\nscores = q @ k.transpose(-2, -1)",
        "cauchy": f"""
            sizes = q.square().sum(-1)[..., :, None] + k.square().sum(-1)[..., None, :]
            scores = 1 + (sizes - 2 * q @ k.transpose(-2, -1)).clamp(min=0.0) / {width}
        """,
        "fourier": """
            # cos(q - k) = cos q cos k + sin q sin k, its mean over the channels
            waves, answers = torch.cat((q.cos(), q.sin()), dim=-1), torch.cat((k.cos(), k.sin()), dim=-1)
            scores = 1 + waves @ answers.transpose(-2, -1) / q.shape[-1]
        """,
    }
    return Part(forward=written[kind])


def _toeplitz(window: str) -> list[Part]:
    longest = weighting.SEEN.get(window, weighting.LONGEST)
    init = f"self.toeplitz = nn.Parameter(torch.zeros(heads, {longest}))  # by distance; those beyond share the last"
    forward = f"alpha = alpha + self.toeplitz[:, age.clamp(0, {longest - 1})].masked_fill(hidden, 0.0)"
    return [Part(init=init, forward=forward)]


GRAMMAR = Grammar(NAME, GENES, render)
