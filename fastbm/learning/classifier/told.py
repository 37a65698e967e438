"""What the fits of a classifier's machines warn of, told once each with the classes whose it is."""

from __future__ import annotations

from ..._base import checks

MOST_NAMED = 5  # classes

Told = dict[str, list[tuple[str, type[Warning]]]]  # warnings, by class


def warn_of_classes(told: Told, in_folds: Told) -> None:
    """Tell each warning once; of fits to some of the rows the first, of classes whose own fit had none."""
    whose: dict[tuple[str, type[Warning]], list[str]] = {}
    for label in told:
        few = [(f"in cross-validation: {text}", category) for text, category in in_folds.get(label, [])[:1]]
        for one in dict.fromkeys(told[label] or few):
            whose.setdefault(one, []).append(label)
    for (text, category), labels in whose.items():
        more = len(labels) - MOST_NAMED
        named = ", ".join(labels[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        checks.warn(f"class{'es' if len(labels) > 1 else ''} {named}: {text}", category)
