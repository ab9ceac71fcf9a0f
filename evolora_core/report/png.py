"""PNG files with a palette: a third as large as with 16 million colours, and no colour of a legend changed."""

import numpy as np
from PIL import Image

COLOURS = 256
KEPT = 192  # the most frequent colours stay as they are; the others, of edges and overlaps, share the rest


def with_palette(image: Image.Image) -> Image.Image:
    """The image `[h, w]` in at most 256 colours; transparency is lost."""
    image = image.convert("RGB")
    pixels = np.asarray(image).reshape(-1, 3).astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.int32)
    found, places, counts = np.unique(pixels, return_inverse=True, return_counts=True)
    colours = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1)
    if len(colours) > COLOURS:
        frequent = colours[np.argsort(-counts, kind="stable")[:KEPT]]
        rest = image.quantize(COLOURS - KEPT, dither=Image.Dither.NONE).getpalette() or []
        palette = np.vstack([frequent, np.reshape(rest, (-1, 3))]).astype(np.uint8)
        apart = colours[:, None].astype(np.int32) - palette[None].astype(np.int32)
        places, colours = np.square(apart).sum(axis=2).argmin(axis=1)[places], palette
    reduced = Image.fromarray(places.reshape(image.height, image.width).astype(np.uint8), "L")
    reduced.putpalette(colours.astype(np.uint8).tobytes())
    return reduced
