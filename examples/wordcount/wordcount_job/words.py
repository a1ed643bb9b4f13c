"""The generated input: the n-th line is always the same, so that the correct counts can be computed."""

WORDS = (
    "mill", "mills", "stream", "streams", "wheel", "wheels", "river", "rivers", "stone", "stones", "grain", "grains",
    "miller", "millers", "bridge", "bridges", "berry", "berries", "city", "cities", "box", "boxes", "wolf", "wolves",
)  # fmt: skip


def line(index: int) -> str:
    """Line number `index`: from one to five words."""
    first = index * 2654435761 % 4294967291
    return " ".join(WORDS[(first >> shift) % len(WORDS)] for shift in range(0, 3 * (index % 5 + 1), 3))
