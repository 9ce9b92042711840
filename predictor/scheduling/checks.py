"""This module words the faults of single configuration values; "" = there is none."""


def choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Say that a value is not one of those allowed."""
    return "" if value in allowed else f"{name}={value!r} is not one of {', '.join(allowed)}"


def probability(name: str, value: float) -> str:
    """Say that a value is no probability."""
    return "" if 0.0 < value < 1.0 else f"{name}={value} must lie strictly between 0 and 1"


def least(name: str, value: float, smallest: float) -> str:
    """Say that a value is too small."""
    return "" if value >= smallest else f"{name}={value} must be {smallest} or more"


def above(name: str, value: float) -> str:
    """Say that a value is not positive."""
    return "" if value > 0 else f"{name}={value} must be above 0"


def at_most(name: str, value: float, largest: float) -> str:
    """Say that a value is too large."""
    return "" if value <= largest else f"{name}={value} must be {largest} or less"
