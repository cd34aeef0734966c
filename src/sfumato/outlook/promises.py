"""The promises for somebody who chooses among them: one sentence each, and what each number does.

The same words for the page and for whatever else shows promises side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sfumato.guarantees import GUARANTEES, parse_guarantee
from sfumato.mechanisms import MECHANISMS, mechanisms_for


@dataclass(frozen=True)
class Parameter:
    """A number that the steward moves, and what moving it does."""

    name: str
    title: str
    kind: Literal["number", "fraction", "integer"]
    default: str
    least: float
    most: float
    less: str
    more: str

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "kind": self.kind,
            "default": self.default,
            "least": self.least,
            "most": self.most,
            "less": self.less,
            "more": self.more,
        }


@dataclass(frozen=True)
class PromiseWords:
    """A promise in one sentence, with its numbers."""

    name: str
    title: str
    sentence: str
    parameters: tuple[Parameter, ...]

    @property
    def example(self) -> str:
        """The promise with its usual numbers, in the language of the command line."""
        given = ", ".join(f"{p.name}={p.default}" for p in self.parameters)
        return str(parse_guarantee(f"{self.name}({given})"))

    def to_json(self) -> dict[str, Any]:
        """With the mechanisms that keep it, and what it does not protect against."""
        promise = parse_guarantee(self.example)
        chosen = [way.name for way in mechanisms_for(promise)]
        able = [name for name, cls in MECHANISMS.items() if cls().keeps(promise)]
        return {
            "name": self.name,
            "title": self.title,
            "sentence": self.sentence,
            "example": self.example,
            "parameters": [parameter.to_json() for parameter in self.parameters],
            "mechanisms": [
                {"name": name, "sentence": MECHANISM_WORDS[name], "chosen": name in chosen}
                for name in sorted(able, key=lambda name: name not in chosen)
            ],
            "does_not_protect": list(promise.does_not_protect),
        }


def _share(name: str, title: str, default: str, less: str, more: str) -> Parameter:
    return Parameter(name, title, "fraction", default, 0.0, 1.0, less, more)


PROMISES: dict[str, PromiseWords] = {
    words.name: words
    for words in (
        PromiseWords(
            "l-diversity",
            "No value likelier than 1 in l",
            "Whoever knows somebody's public columns gives each sensitive value of that person a "
            "chance of at most 1 in l.",
            (
                Parameter(
                    "l",
                    "l: one in how many",
                    "integer",
                    "3",
                    2,
                    50,
                    "A smaller l protects less; counts become more accurate.",
                    "A larger l protects more; counts become less accurate, and a very common "
                    "value may make it impossible.",
                ),
            ),
        ),
        PromiseWords(
            "beta-likeness",
            "No value much likelier than it was",
            "Whoever knows somebody's public columns gives each sensitive value at most 1 + beta "
            "times its share in the whole table.",
            (
                Parameter(
                    "beta",
                    "beta: how much likelier a value may become",
                    "number",
                    "3",
                    0.1,
                    50,
                    "A smaller beta protects more, rare values most of all; counts become less "
                    "accurate.",
                    "A larger beta protects less; counts become more accurate.",
                ),
            ),
        ),
        PromiseWords(
            "f-privacy",
            "A ceiling for every value",
            "Whoever knows somebody's public columns gives each sensitive value at most theta "
            "times its share in the whole table, plus a floor.",
            (
                Parameter(
                    "theta",
                    "theta: how many times its share",
                    "number",
                    "4",
                    1,
                    50,
                    "A smaller theta protects more; counts become less accurate.",
                    "A larger theta protects less; counts become more accurate.",
                ),
                _share(
                    "floor",
                    "floor: added for every value",
                    "0.02",
                    "A smaller floor protects rare values more.",
                    "A larger floor protects rare values less; counts become more accurate.",
                ),
            ),
        ),
        PromiseWords(
            "rho-privacy",
            "Who was unlikely before stays unlikely after",
            "Whoever gives a person's sensitive value a chance of at most rho1 without that "
            "person's own record gives it at most rho2 with it.",
            (
                _share(
                    "rho1",
                    "rho1: the chance before",
                    "0.1",
                    "A smaller rho1 covers fewer values: those whose share is above it are not "
                    "protected.",
                    "A larger rho1 covers more common values too.",
                ),
                _share(
                    "rho2",
                    "rho2: the chance after",
                    "0.3",
                    "A smaller rho2 protects more; counts become less accurate.",
                    "A larger rho2 protects less; counts become more accurate.",
                ),
            ),
        ),
        PromiseWords(
            "fine-rho-privacy",
            "Every value at most theta times as likely",
            "Whoever gives a person's sensitive value a chance of at most its share in the table "
            "gives it at most theta times that share after seeing the person's own record.",
            (
                Parameter(
                    "theta",
                    "theta: how many times its share",
                    "number",
                    "5",
                    1.01,
                    100,
                    "A smaller theta protects more; counts become less accurate.",
                    "A larger theta protects less, and common values not at all; counts become "
                    "more accurate.",
                ),
            ),
        ),
        PromiseWords(
            "small-sum",
            "Small sums hidden, large sums kept",
            "Every published value was drawn from several different values, so that a number over "
            "few people is badly wrong and a number over many is right.",
            (
                Parameter(
                    "groups",
                    "groups: how many different values each is drawn from",
                    "integer",
                    "5",
                    2,
                    50,
                    "Smaller groups hide small sums less; counts become more accurate.",
                    "Larger groups hide small sums more; counts become less accurate, and a very "
                    "common value may make it impossible.",
                ),
            ),
        ),
        PromiseWords(
            "reconstruction-privacy",
            "What concerns one person cannot be reconstructed",
            "Whoever estimates how many of the people with exactly the same public columns have a "
            "value is off by more than the error with at least the stated chance.",
            (
                _share(
                    "error",
                    "error: how far off",
                    "0.3",
                    "A smaller error protects less; counts become more accurate.",
                    "A larger error protects more; counts become less accurate.",
                ),
                _share(
                    "chance",
                    "chance: how often off that far",
                    "0.3",
                    "A smaller chance protects less; counts become more accurate.",
                    "A larger chance protects more; counts become less accurate.",
                ),
                _share(
                    "retention",
                    "retention: how often a value stays as it was",
                    "0.5",
                    "A smaller retention perturbs more records.",
                    "A larger retention perturbs fewer records, but fewer of them can be used.",
                ),
            ),
        ),
    )
}

MECHANISM_WORDS: dict[str, str] = {
    "uniform": "Keeps each value with one chance and else draws any value: simple, well known.",
    "fine-grain": "Keeps each value with a chance of its own, the best that its limit allows.",
    "partitioned": "Splits the table into parts with few values each and perturbs inside a part.",
    "general": "Searches all ways to exchange values, for at most 60 of them.",
    "resample": "Draws values from the table's shares alone: protects most, tells no link.",
    "splu": "Puts records with different values in groups and publishes one of their values each.",
    "sps": "Perturbs a sample of each group of like people and copies it back to its size.",
    "optimal": "Shows records in buckets, of the sizes that lose least, with the values beside.",
    "multi-size": "Buckets of several sizes, chosen by a rule of thumb; for comparison.",
    "two-size": "Buckets of two sizes: the fastest to plan.",
    "anatomy": "Buckets dealt round robin; for comparison.",
    "heterogeneous": "Shows ranges and sets instead of public values, made for each record.",
    "ring": "Shows ranges and sets in rings of different values; for comparison.",
    "burel": "Shows ranges and sets for groups of like people; for comparison.",
}


def promise_list() -> list[dict[str, Any]]:
    """Every registered promise, ready to be shown.

    >>> [promise["name"] for promise in promise_list()][:2]
    ['l-diversity', 'beta-likeness']
    """
    assert set(PROMISES) == set(GUARANTEES), set(PROMISES) ^ set(GUARANTEES)
    return [words.to_json() for words in PROMISES.values()]
