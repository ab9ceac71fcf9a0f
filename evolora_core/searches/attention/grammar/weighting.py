"""How much each token takes of each token before it: code that two frameworks share, `coefficient-dynamics` and
`matrix-mixer`.

All of it works on `scores` [B, H, T, T] of queries `q` and keys `k`, reads the layer's input `x` [B, T, D], and ends
with `alpha`. Exponentials are taken of what is bounded above; what lies in the future is set to zero, or to minus
infinity in an exponent, before it can overflow.
"""

from evolora_core.searches.attention.grammar.writing import Part

WINDOW = {
    "all": "every token sees all of its past",
    "16": "tokens see the last 16 tokens alone",
    "2": "tokens see themselves and the one before alone (a handicap)",
    "strided": "tokens see the last four tokens and every fourth before them",
}
HEADS = {"own": "heads do not see each other's weights", "talking": "heads mix their weights (learned)"}
NORMALISER = {
    "sum": "weights of a token sum to one",
    "one-more": "weights are divided by their sum and one more, so that a token may take less than all",
    "count": "weights are divided by the number of tokens that are seen",
    "l2": "weights of a token have unit length",
}
BLEND = {
    "none": "weights as they are",
    "learned-self": "a learned share of each token's own value",
    "mostly-self": "nine parts of each token's own value (a handicap)",
    "mostly-average": "nine parts of the plain average of the past (a handicap)",
}
FADING = {
    "none": "the past does not fade",
    "fixed": "the past fades at a fixed rate for each head, as in ALiBi and RetNet",
    "learned": "the past fades at a learned rate for each head",
    "gate": "each token says how much of the past is forgotten (a gate for each head)",
    "distance": "a learned weight for each distance and head",
}
SEEN = {"2": 2, "16": 16}  # tokens of the windows that end
LONGEST = 32  # distances with a weight of their own; all beyond share the last one


def band(window: str, ages: bool) -> Part:
    """`hidden` [T, T], true where a token does not look; with `ages`, or where it needs them, `age` [T, T] too."""
    if window == "all" and not ages:
        return Part(forward="hidden = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)")
    seen = {
        "all": "hidden = age < 0",
        "16": "hidden = (age < 0) | (age >= 16)",
        "2": "hidden = (age < 0) | (age >= 2)",
        "strided": "hidden = (age < 0) | ((age >= 4) & (age % 4 != 0))",
    }
    forward = f"""
        steps = torch.arange(q.shape[-2], device=q.device)
        age = steps[:, None] - steps  # [T, T], negative in the future
        {seen[window]}
    """
    return Part(forward=forward)


def needs_ages(fading: str) -> bool:
    """Whether the code of `fading` reads `age`."""
    return fading in ("fixed", "learned", "distance")


def fade(fading: str, window: str) -> list[Part]:
    """`fade`, the logarithm of what is left of a token by the time it is looked at, minus infinity where hidden."""
    hide = 'masked_fill(hidden, float("-inf"))'
    if fading == "fixed":
        forward = f"""
            # Every head forgets at a rate of its own, from 1/2 to 1/64 a token.
            rates = 2.0 ** -torch.linspace(1, 6, q.shape[1], device=q.device)
            fade = (-rates[:, None, None] * age).{hide}
        """
        return [Part(forward=forward)]
    if fading == "learned":
        init = """
            # Logarithms of the rates at which heads forget: from 1/2 to 1/64 a token at first.
            self.rate = nn.Parameter(-math.log(2) * torch.linspace(1, 6, heads))
        """
        return [Part(init=init, forward=f"fade = (-self.rate.exp()[:, None, None] * age).{hide}")]
    if fading == "gate":
        forward = f"""
            kept = F.logsigmoid(self.forget(x)).clamp(min=-8.0).cumsum(1).transpose(1, 2)  # [B, H, T]
            fade = (kept[..., :, None] - kept[..., None, :]).{hide}
        """
        return [Part(init=forget_gate(), forward=forward)]
    if fading == "distance":
        longest = SEEN.get(window, LONGEST)
        init = f"self.distance = nn.Parameter(torch.zeros(heads, {longest}))  # those beyond share the last"
        forward = f"fade = self.distance[:, age.clamp(0, {longest - 1})].{hide}"
        return [Part(init=init, forward=forward)]
    return []


def forget_gate() -> str:
    """The projection of a forget gate, one number for each head."""
    return """
        self.forget = nn.Linear(dim, heads)
        nn.init.constant_(self.forget.bias, 3.0)  # at first a token forgets 5 %
    """


def weights(kernel: str, normaliser: str, faded: bool, signed: bool = False) -> list[Part]:
    """From `scores`, `hidden` and, if `faded`, `fade` to `alpha`.

    `kernel` is exp, or an expression of `scores` that a dot may follow; `signed`: it can be negative.
    """
    if kernel == "exp":
        return [Part(forward=_exponential(normaliser, faded))]
    masked = f"{kernel} * fade.exp()" if faded else f"{kernel}.masked_fill(hidden, 0.0)"
    size = "weights.abs()" if signed else "weights"
    divisor = {
        "sum": f"({size}.sum(-1, keepdim=True) + 1e-6)",
        "one-more": f"({size}.sum(-1, keepdim=True) + 1)",
        "count": "(~hidden).sum(-1, keepdim=True)",
        "l2": "(weights.square().sum(-1, keepdim=True) + 1e-6).sqrt()",
    }
    return [Part(forward=f"weights = {masked}\nalpha = weights / {divisor[normaliser]}")]


def _exponential(normaliser: str, faded: bool) -> str:
    logarithm = "scores + fade" if faded else 'scores.masked_fill(hidden, float("-inf"))'
    if normaliser == "sum":
        return f"alpha = F.softmax({logarithm}, dim=-1)"
    if normaliser == "one-more":
        return f"""
            # Softmax with a score of 0 besides the others, which takes what no token deserves.
            scores = {logarithm}
            top = scores.amax(-1, keepdim=True).clamp(min=0.0).detach()
            weights = (scores - top).exp()
            alpha = weights / (weights.sum(-1, keepdim=True) + (-top).exp())
        """
    if normaliser == "count":
        raised = "(scores + fade).exp()" if faded else f"{logarithm}.exp()"
        return f"""
            scores = 8 * torch.tanh(scores / 8)  # no sum bounds the exponentials
            alpha = {raised} / (~hidden).sum(-1, keepdim=True)
        """
    return f"""
        scores = {logarithm}
        weights = (scores - scores.amax(-1, keepdim=True).detach()).exp()
        alpha = weights / weights.square().sum(-1, keepdim=True).sqrt()
    """


def talking(choice: str) -> list[Part]:
    """Heads that mix their weights (Shazeer et al. 2020); a learned matrix, at first the identity."""
    if choice == "own":
        return []
    init = "self.talk = nn.Parameter(torch.eye(heads))"
    return [Part(init=init, forward='alpha = torch.einsum("gh,bhij->bgij", self.talk, alpha)')]


def blend(choice: str) -> list[Part]:
    """What is mixed into `alpha` at the end."""
    eye = "torch.eye(q.shape[-2], device=q.device)"
    if choice == "learned-self":
        init = "self.own = nn.Parameter(torch.full((heads, 1, 1), -2.0))  # a share of 12 % at first"
        forward = f"""
            own = torch.sigmoid(self.own)
            alpha = (1 - own) * alpha + own * {eye}
        """
        return [Part(init=init, forward=forward)]
    if choice == "mostly-self":
        return [Part(forward=f"alpha = 0.1 * alpha + 0.9 * {eye}")]
    if choice == "mostly-average":
        forward = """
            average = (~hidden) / (~hidden).sum(-1, keepdim=True)
            alpha = 0.1 * alpha + 0.9 * average
        """
        return [Part(forward=forward)]
    return []
