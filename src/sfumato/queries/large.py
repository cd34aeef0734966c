"""Columns of very many values: the virtual table in O(m) rows instead of O(m²).

Where W[y, x] = own_x·1{y = x} + rest_x, what a record adds to a group of original values is the
same for every published value outside the group. So the records are first taken together, whatever
they show, with the contribution of `rest` alone (`whole` rows); those that show a value of the
group then take that back (sign −1) and add their own (sign +1). Every sum over `groups` is a sum
over the rows of all three kinds, each with its sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfumato.queries.session import quoted
from sfumato.queries.sums import group_by, where


@dataclass(frozen=True)
class LargeColumn:
    """The stages `classes` and `contributions` of a question about one such column.

    `weights` is the name of its weight table, `shown` the column of `classes` with the published
    value, `mixed` those with quasi parts; `quasi` are the other keys of `classes`, `moments` its
    sums. `keys`, `weighted` and `conditions` are SQL over `w0` and `p`, as in `VirtualTable`.
    """

    weights: str
    shown: str
    mixed: Sequence[str]
    quasi: Sequence[str]
    moments: Sequence[str]
    keys: Mapping[int, str]
    weighted: Mapping[str, str]
    conditions: Sequence[str]

    def classes(self) -> str:
        """`classes` with, beside each, all of them together, whatever they show."""
        keys = [*self.quasi, *self.mixed]
        sums = [f"sum({name}) AS {name}" for name in self.moments]
        together = ", ".join([*keys, f"NULL AS {self.shown}", *sums, "true AS whole"])
        each = ", ".join([*keys, self.shown, *self.moments, "false AS whole"])
        # no records at all are no class either
        by_keys = f" GROUP BY {', '.join(keys)}" if keys else " HAVING count(*) > 0"
        return f"SELECT {each} FROM classes UNION ALL SELECT {together} FROM classes{by_keys}"

    def contributions(self) -> str:
        """`rest` and `own`, and `contributions` from them."""
        mixed = ", ".join(self.mixed) or "1 AS one"
        mixes = f"(SELECT DISTINCT {mixed} FROM classes) AS p"
        profiles = f"(SELECT DISTINCT {', '.join([*self.mixed, self.shown])} FROM classes) AS p"
        own = f"{profiles} JOIN {quoted(self.weights)} AS w0 ON {_same('p', 'w0', [self.shown])}"
        own = own.replace(f"w0.{self.shown}", 'w0."published"')
        rest = f"{mixes} CROSS JOIN {quoted(self.weights + '_rest')} AS w0"
        common = [*self.mixed, *(f"k{place}" for place in self.keys)]
        names = list(self.weighted)
        joined = f"own AS o JOIN rest AS b ON {_same('o', 'b', common)}"
        back = [f"b.{name}" for name in names]
        forth = [
            f"CASE WHEN o.{name} IS NULL THEN b.{name} ELSE coalesce(b.{name}, 0e0) + o.{name} END "
            f"AS {name}"
            if "sum(" in sql
            else f"b.{name}"
            for name, sql in self.weighted.items()
        ]
        beside = [f"o.{name}" for name in (*common, self.shown)]
        return (
            f"rest AS MATERIALIZED ({self._select([], rest)}), "
            f"own AS MATERIALIZED ({self._select([self.shown], own)}), contributions AS ("
            f"{_list(common, [f'NULL AS {self.shown}'], names, ['true AS whole', '1 AS sign'])} "
            f"FROM rest UNION ALL BY NAME "
            f"{_list(beside, back, ['false AS whole', '-1 AS sign'])} FROM {joined} "
            f"UNION ALL BY NAME "
            f"{_list(beside, forth, ['false AS whole', '1 AS sign'])} FROM {joined}), "
        )

    def _select(self, shown: list[str], source: str) -> str:
        split = [f"p.{name}" for name in (*self.mixed, *shown)]
        split += [f"{sql} AS k{place}" for place, sql in self.keys.items()]
        sums = [f"{sql} AS {name}" for name, sql in self.weighted.items()]
        return f"{_list(split, sums)} FROM {source}{where(self.conditions)}" + (
            group_by(len(split)) or " HAVING count(*) > 0"
        )


def _list(*columns: Sequence[str]) -> str:
    return "SELECT " + ", ".join(column for each in columns for column in each)


def _same(one: str, other: str, names: Sequence[str]) -> str:
    same = [f"{one}.{name} IS NOT DISTINCT FROM {other}.{name}" for name in names]
    return " AND ".join(same) or "true"
