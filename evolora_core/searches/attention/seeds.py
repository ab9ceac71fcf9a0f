"""Training seeds of a run: those of the selection and fresh ones, which no selection ever sees."""

STRIDE, FRESH = 1000, 500  # a run seed's training seeds begin at STRIDE times it; the fresh ones FRESH later


def selection_seeds(run_seed: int, count: int) -> list[int]:
    """Seeds with which programs are measured while they are searched."""
    return [STRIDE * run_seed + number for number in range(count)]


def fresh_seeds(run_seed: int, count: int) -> list[int]:
    """Seeds with which conditions are judged."""
    return [STRIDE * run_seed + FRESH + number for number in range(count)]
