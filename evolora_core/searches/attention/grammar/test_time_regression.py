"""The grammar of test-time regression (Wang, Shi, Fox 2025, arXiv 2501.12352).

At every token i a map is fitted to the pairs (k_j, v_j), j <= i, and asked at q_i: `map` says which maps and how they
are fitted, `memory` and `importance` with which weights, `sharpness` how well near keys are told apart.
"""

from evolora_core.searches.attention.grammar import shared
from evolora_core.searches.attention.grammar.genes import Gene, Genome, Grammar
from evolora_core.searches.attention.grammar.weighting import forget_gate
from evolora_core.searches.attention.grammar.writing import Part, method_text

NAME = "test-time-regression"

CORE = (
    Gene(
        "map",
        "core",
        {
            "exp": "the mean of the values, weighted by exp(q k)",
            "gauss": "the mean of the values, weighted by a Gaussian of the distance of key and query",
            "cauchy": "the mean of the values, weighted by 1 / (1 + distance squared)",
            "local-linear": "a weighted line through the values along the query's direction, read at the query",
            "linear": "a linear map, as if keys were uncorrelated (linear attention)",
            "ridge": "the linear map of least squares with a learned ridge",
            "delta": "a linear map, improved by one gradient step a token (DeltaNet)",
        },
    ),
    Gene(
        "features",
        "core",
        {
            "none": "keys and queries as they are",
            "elu": "keys and queries pass ELU + 1",
            "silu": "keys and queries pass SiLU",
            "softmax": "keys and queries pass a softmax over their channels",
        },
    ),
    Gene(
        "memory",
        "core",
        {
            "none": "all of the past weighs the same",
            "fixed": "the past fades at a fixed rate for each head",
            "learned": "the past fades at a learned rate for each head",
            "gate": "each token says how much of the past is forgotten (a gate for each head)",
        },
    ),
    Gene(
        "importance",
        "core",
        {"equal": "every token counts the same", "token": "each token says how much it counts, head by head"},
    ),
    Gene(
        "sharpness",
        "core",
        {
            "fixed": "a fixed sharpness",
            "head": "a learned sharpness for each head",
            "position": "a sharpness that grows with a learned power of the position",
        },
    ),
    Gene(
        "passes",
        "core",
        {"one": "one fit", "two": "a second fit to what the first leaves over at the keys"},
    ),
    Gene(
        "blend",
        "core",
        {
            "none": "answers as they are",
            "learned-self": "a learned share of each token's own value",
            "mostly-self": "nine parts of each token's own value (a handicap)",
            "mostly-average": "nine parts of the plain average of the past (a handicap)",
        },
    ),
)
GENES = (*shared.PREPARE, *CORE, *shared.FINISH)
MEANS = ("exp", "gauss", "cauchy", "local-linear")  # the maps that are weighted means; the others are linear


def render(genome: Genome) -> str:
    """The program of a genome."""
    slots = (
        (shared.PREPARE, shared.prepare_parts(genome), "q, k, v"),
        (CORE, _core(genome), "y"),
        (shared.FINISH, shared.finish_parts(genome), "y"),
    )
    return shared.written(NAME, genome, slots)


def _core(genome: Genome) -> list[Part]:
    """The parts of `Regression`."""
    kind, memory = genome["map"], genome["memory"]
    means = kind in MEANS
    found = [
        *_features(genome["features"]),
        *([] if means else [Part(forward="q, k = F.normalize(q, dim=-1, eps=1e-6), F.normalize(k, dim=-1, eps=1e-6)")]),
        *_steps(genome),
        *_sharpness(genome["sharpness"]),
        *_memory(memory, means, kind == "ridge"),
        *(_mean(genome) if means else _linear(genome)),
    ]
    if genome["passes"] == "two":
        found = _two_passes(found)
    return [*found, *_blend(genome["blend"])]


def _features(features: str) -> list[Part]:
    written = {
        "elu": "q, k = F.elu(q) + 1, F.elu(k) + 1",
        "silu": "q, k = F.silu(q), F.silu(k)",
        "softmax": "q, k = F.softmax(q, dim=-1), F.softmax(k, dim=-1)",
    }
    return [Part(forward=written[features])] if features in written else []


def _steps(genome: Genome) -> list[Part]:
    fading = genome["memory"] in ("fixed", "learned")
    needed = fading or genome["sharpness"] == "position" or (genome["map"] == "linear" and _weightless(genome))
    return [Part(forward="steps = torch.arange(q.shape[-2], device=q.device)")] if needed else []


def _weightless(genome: Genome) -> bool:
    """Whether every token weighs the same."""
    return genome["memory"] == "none" and genome["importance"] == "equal"


def _sharpness(sharpness: str) -> list[Part]:
    """`sharpness`, a positive factor of the scores or of the query."""
    if sharpness == "head":
        init = "self.sharpness = nn.Parameter(torch.zeros(heads, 1, 1))  # its logarithm"
        return [Part(init=init, forward="sharpness = self.sharpness.exp()")]
    if sharpness == "position":
        init = "self.growth = nn.Parameter(torch.full((heads, 1, 1), 0.1))"
        return [Part(init=init, forward="sharpness = (steps + 1.0)[:, None] ** self.growth  # [H, T, 1]")]
    return []


def _memory(memory: str, means: bool, ridge: bool) -> list[Part]:
    """`kept`, the logarithm of what is left of the first token, and `fade` [.., T, T] of it, or its logarithm."""
    init, forward = "", ""
    if memory == "fixed":
        forward = """
            # Every head forgets at a rate of its own, from 1/8 to 1/64 a token.
            rates = 2.0 ** -torch.linspace(3, 6, q.shape[1], device=q.device)
            kept = -rates[:, None] * steps  # [H, T]
        """
    elif memory == "learned":
        init = """
            # Logarithms of the rates at which heads forget: from 1/8 to 1/64 a token at first.
            self.rate = nn.Parameter(-math.log(2) * torch.linspace(3, 6, heads))
        """
        forward = "kept = -self.rate.exp()[:, None] * steps  # [H, T]"
    elif memory == "gate":
        init = forget_gate()
        forward = "kept = F.logsigmoid(self.forget(x)).clamp(min=-8.0).cumsum(1).transpose(1, 2)  # [B, H, T]"
    future = "torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)"
    parts = [Part(init=init, forward=forward)] if forward else []
    if ridge and forward:  # takes exp(-kept), which float32 holds up to exp(88)
        parts.append(Part(forward="kept = kept.clamp(min=-60.0)"))
    if means or forward:
        parts.append(Part(forward=f"future = {future}"))
    if forward:
        fade = '(kept[..., :, None] - kept[..., None, :]).masked_fill(future, float("-inf"))'
        parts.append(Part(forward=f"fade = {fade}" + ("" if means else ".exp()")))
    return parts


def _mean(genome: Genome) -> list[Part]:
    """A weighted mean of the values: the regression of Nadaraya and Watson."""
    kind = genome["map"]
    factor = "" if genome["sharpness"] == "fixed" else " * sharpness"
    width = "math.sqrt(q.shape[-1])"
    written = {
        "exp": f"scores = q @ k.transpose(-2, -1) / {width}{factor}",
        "gauss": f"""
            # -|q - k|^2 / 2, less what is the same for all keys.
            scores = (q @ k.transpose(-2, -1) - k.square().sum(-1)[..., None, :] / 2) / {width}{factor}
        """,
        "cauchy": f"""
            sizes = q.square().sum(-1)[..., :, None] + k.square().sum(-1)[..., None, :]
            apart = (sizes - 2 * q @ k.transpose(-2, -1)).clamp(min=0.0) / {width}{factor}
            scores = -torch.log1p(apart)
        """,
    }
    parts = [Part(forward=written["exp" if kind == "local-linear" else kind])]
    if genome["importance"] == "token":
        forward = "scores = scores + F.logsigmoid(self.importance(x)).transpose(1, 2)[..., None, :]"
        parts.append(Part(init="self.importance = nn.Linear(dim, heads)", forward=forward))
    logarithm = 'scores.masked_fill(future, float("-inf"))' if genome["memory"] == "none" else "scores + fade"
    parts.append(Part(forward=f"weights = F.softmax({logarithm}, dim=-1)"))
    if kind == "local-linear":
        init = "self.ridge = nn.Parameter(torch.full((heads, 1, 1), 0.5))  # softplus of it is about 1"
        forward = """
            # Least squares of v on the length of k along q, by the same weights. Read at q, it is a sum of values.
            along = F.normalize(q, dim=-1, eps=1e-6) @ k.transpose(-2, -1)
            centre = (weights * along).sum(-1, keepdim=True)
            spread = (weights * (along - centre).square()).sum(-1, keepdim=True)
            lean = (q.norm(dim=-1, keepdim=True) - centre) / (spread + F.softplus(self.ridge) + 0.01)
            weights = weights * (1 + lean * (along - centre))
        """
        parts.append(Part(init=init, forward=forward))
    return [*parts, Part(forward="y = weights @ v")]


def _linear(genome: Genome) -> list[Part]:
    """A linear map of unit keys."""
    kind, token = genome["map"], genome["importance"] == "token"
    sharp = [] if genome["sharpness"] == "fixed" else [Part(forward="q = q * sharpness")]
    counts = "torch.sigmoid(self.importance(x)).transpose(1, 2)[..., None]  # [B, H, T, 1]"
    init = "self.importance = nn.Linear(dim, heads)"
    if kind == "delta":
        if token:
            rate = Part(init=init, forward=f"rate = {counts}")
        else:
            own = "self.rate_of_learning = nn.Parameter(torch.zeros(heads, 1, 1))  # a sigmoid of it: 1/2 at first"
            rate = Part(init=own, forward="rate = torch.sigmoid(self.rate_of_learning)")
        return [*sharp, rate, _delta(genome["memory"])]
    worth = [Part(init=init, forward=f"worth = {counts}")] if token else []
    return [*sharp, *worth, *(_uncorrelated(genome) if kind == "linear" else _ridge(genome))]


def _read(queries: str, genome: Genome) -> str:
    """The weights of the values [B, H, T, T] that some queries give."""
    inner = f"{queries} @ k.transpose(-2, -1)"
    return f"torch.tril({inner})" if genome["memory"] == "none" else f"({inner} * fade)"


def _uncorrelated(genome: Genome) -> list[Part]:
    """Linear attention: the mean of k k^T over n tokens is taken for the unit matrix over d."""
    worth = "worth * v" if genome["importance"] == "token" else "v"
    if genome["memory"] == "none":
        total = "worth.cumsum(-2)" if genome["importance"] == "token" else "(steps + 1)[:, None]"
    else:
        total = "(fade @ worth)" if genome["importance"] == "token" else "fade.sum(-1, keepdim=True)"
    small = " + 1e-3" if genome["importance"] == "token" else ""
    total = f"({total}{small})" if small else total
    read = _read("q", genome)
    value = f"({worth})" if " " in worth else worth
    return [Part(forward=f"y = {read} @ {value} * q.shape[-1] / {total}")]


def _ridge(genome: Genome) -> list[Part]:
    """Least squares: y_i = q_i (sum of k k^T + ridge)^-1 (sum of k v^T), solved for every token at once."""
    token, faded = genome["importance"] == "token", genome["memory"] != "none"
    outer = "k[..., :, None] * k[..., None, :]"
    if token:
        outer += " * worth[..., None]"
    gram = "outer.cumsum(2)"
    if faded:
        gram = "(outer * (-kept).exp()[..., None, None]).cumsum(2) * kept.exp()[..., None, None]"
    value = "(worth * v)" if token else "v"
    forward = f"""
        outer = {outer}  # [B, H, T, d, d]
        gram = {gram}
        ridge = (F.softplus(self.ridge) + 0.01)[:, None, None, None] * torch.eye(q.shape[-1], device=q.device)
        asked = torch.linalg.solve(gram + ridge, q[..., None])[..., 0]  # [B, H, T, d]
        y = {_read("asked", genome)} @ {value}
    """
    return [
        Part(init="self.ridge = nn.Parameter(torch.zeros(heads))  # softplus of it: 0.69 at first", forward=forward)
    ]


def _delta(memory: str) -> Part:
    """The delta rule for all tokens at once: what each adds to the map solves a triangular system."""
    fade = "" if memory == "none" else " * fade"
    read = "torch.tril(q @ k.transpose(-2, -1))" if memory == "none" else "(q @ k.transpose(-2, -1) * fade)"
    forward = f"""
        # M_i = M_i-1 + rate (v_i - M_i-1 k_i) k_i^T; `novel` holds the vectors that are added, rate (v_i - M_i-1 k_i).
        known = torch.tril(rate * (k @ k.transpose(-2, -1)){fade}, -1)
        novel = torch.linalg.solve_triangular(known, rate * v, upper=False, unitriangular=True)
        y = {read} @ novel
    """
    return Part(forward=forward)


def _two_passes(found: list[Part]) -> list[Part]:
    """The code of the fit as a method, called three times (Tukey's twicing)."""
    head = "fit(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor"
    method = method_text(head, "Fit on (k_j, v_j), j <= i, and ask at q_i.", found, "y")
    forward = """
        over = v - self.fit(k, k, v, x)
        y = self.fit(q, k, v, x) + self.fit(q, k, over, x)
    """
    return [*(Part(init=part.init) for part in found), Part(methods=method, forward=forward)]


def _blend(choice: str) -> list[Part]:
    if choice == "learned-self":
        init = "self.own = nn.Parameter(torch.full((heads, 1, 1), -2.0))  # a share of 12 % at first"
        return [Part(init=init, forward="y = y + torch.sigmoid(self.own) * (v - y)")]
    if choice == "mostly-self":
        return [Part(forward="y = 0.1 * y + 0.9 * v")]
    if choice == "mostly-average":
        forward = """
            tokens = torch.arange(1, q.shape[-2] + 1, device=q.device)[:, None]
            y = 0.1 * y + 0.9 * v.cumsum(-2) / tokens
        """
        return [Part(forward=forward)]
    return []


GRAMMAR = Grammar(NAME, GENES, render)
