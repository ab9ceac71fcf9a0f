"""What a program may cost, at any size: a judge refuses more, a score guards it, and a proposer is told of it."""

MOST_FLOPS = 3.0  # times the counted FLOPs of the baseline's training step
MOST_PARAMETERS = 1.1  # times the baseline's parameters, embedding apart
