"""Memory of a process that computes on the CPU."""

import ctypes

# Names and numbers of malloc.h (glibc).
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3


def keep_freed_memory() -> None:
    """Let malloc keep what tensors give back, up to a GiB, for the next ones.

    glibc returns large blocks to the system at once, which must then find and clear a page for every 4 KiB of the next
    activation; the passes of a small host take a quarter longer so (docs/performance.md). Elsewhere this does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MMAP_THRESHOLD, 32 * 2**20)  # the most that glibc takes
        mallopt(TRIM_THRESHOLD, 2**30)
        mallopt(TOP_PAD, 64 * 2**20)
