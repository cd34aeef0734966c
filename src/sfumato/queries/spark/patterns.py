"""LIKE patterns: DuckDB has no escape sign unless one is given, Spark always has one."""

from __future__ import annotations

from sfumato.queries.spark.types import Untranslatable

_SIGNS = "\\!#~^|@&$\x01"


def like_pattern(pattern: str, escape: str | None) -> tuple[str, str]:
    r"""The pattern with another escape sign, and that sign.

    >>> like_pattern("50\\%", None)
    ('50\\%', '!')
    >>> like_pattern("50!%!!%", "!")
    ('50\\%!%', '\\')
    """
    tokens: list[tuple[str, bool]] = []  # a sign, and whether it stands for itself
    signs = iter(pattern)
    for sign in signs:
        if sign == escape:
            following = next(signs, None)
            if following is None:
                raise Untranslatable("a pattern that ends in its escape sign")
            tokens.append((following, True))
        else:
            tokens.append((sign, sign not in "%_"))
    free = next((sign for sign in _SIGNS if sign not in {token for token, _ in tokens}), None)
    if free is None or (escape is not None and len(escape) != 1):
        raise Untranslatable("a pattern with every escape sign in it")
    return "".join(free + token if own and token in "%_" else token for token, own in tokens), free
