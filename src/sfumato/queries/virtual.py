"""The virtual table in SQL: records with signed weights, summed with their variance.

Five stages, each a small SELECT:

`classes`
    the records that satisfy the quasi-only conditions, counted by what the rest of the question
    needs to know of them: quasi keys `k…`, quasi parts of mixed expressions `m…`, the published
    values that the weights hang on `r…`; with counts, sums and sums of squares `s…`.
`contributions`
    for each (m, r) and each combination of the remaining keys: the weighted sums over the
    possible original values `t…`.
`groups`
    both joined, and summed by the keys: `g…`.
`estimates`
    value, standard error and interval of each aggregate.

With z = Σ_x W[y, x] g(x) the contribution of a record, Σ z is unbiased and its variance is
estimated without bias by Σ z² − Σ Σ_x W[y, x] g(x)² (methods, section 1). For an indicator g the
second sum is Σ z. An argument e of quasi columns alone is the same for all x, so that classes
carry Σ e and Σ e² and z stays an indicator's.

Where groups were sampled and copied back to their size, `scale` published records stand for one
draw: the noise of a draw counts scale times as much. The sample itself varies too; by less than
independent draws from the group would, whose variance is at most Σ scale · Σ_x W[y, x] g(x)². And
few draws can miss a value altogether, so that two unseen draws are added (Agresti and Coull).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from sfumato.columns import list_some
from sfumato.errors import QueryError
from sfumato.queries.decoys import DecoyLaw, Moments, decoy_variance
from sfumato.queries.dialect import Node
from sfumato.queries.large import LargeColumn
from sfumato.queries.question import Aggregate, Question, Term
from sfumato.queries.rewrite import Stage, hoisted, over
from sfumato.queries.session import Session, quoted
from sfumato.queries.sums import RecordSums, all_of, group_by, where
from sfumato.queries.weights import MOST_VALUES, WeightTable


@dataclass(frozen=True)
class Sums:
    """An aggregate as SQL over `groups`."""

    value: str
    variance: str

    def at_least(self, floor: str) -> Sums:
        """The same value; its variance is known not to be smaller than `floor`."""
        return Sums(self.value, f"greatest({self.variance}, {floor})")


_DECOY_COLUMNS = {
    "first": "min(w0.place)",
    "last": "max(w0.place)",
    "rate": "max(w0.rate)",
    "held": "max(w0.held)",
}


@dataclass(frozen=True)
class _Decoys:
    """Columns of `groups` that name the original values of a group, and the one value's law."""

    law: DecoyLaw
    first: str
    last: str
    rate: str
    held: str

    def moments(self, everything: str, own: str) -> Moments:
        """Sums of what is never negative: an estimate outside its bounds is noise."""
        return Moments(everything, f"least(greatest({own}, 0e0), {everything})")

    def spread(self, plain: str, square: Moments, first: Moments, second: Moments) -> str:
        """The closed form where a group asks about one value, else records as if independent."""
        closed = decoy_variance(self.law, self.rate, self.held, square, first, second)
        return f"CASE WHEN {self.first} = {self.last} THEN {closed} ELSE {plain} END"


class VirtualTable:
    """Writes the stages of one question."""

    def __init__(self, question: Question, session: Session, tables: dict[str, pa.Table]) -> None:
        self._question, self._session, self._tables = question, session, tables
        self._weights: list[tuple[str, WeightTable]] = [
            session.weights(column) for column in question.sensitive
        ]
        self._records = session.record_columns()
        self._originals: dict[str, Node] = {
            column: exp.column("original", table=f"w{place}", quoted=True)
            for place, column in enumerate(question.sensitive)
        }
        self._mixed = Stage("m")
        self._moments = Stage("s")
        self._weighted = Stage("t")
        self._grouped = Stage("g")
        self._shown: dict[str, str] = {}
        for _, weights in self._weights:
            for column in weights.keys:
                self._shown.setdefault(column, f"r{len(self._shown)}")
        self._large = any(weights.rest is not None for _, weights in self._weights)
        if self._large and len(self._weights) > 1:
            raise QueryError(
                f"The columns {list_some(question.sensitive)} cannot be asked about together: one "
                f"has more than {MOST_VALUES:,} values. Ask about one of them at a time."
            )
        self._names = session.names
        self._scale = session.scale()
        # on original values: which keys and which conditions need the weights
        self._keys = {
            place: self._weighed(key) for place, key in enumerate(question.keys) if key.sensitive
        }
        self._where = [self._weighed(term) for term in question.where if term.sensitive]

    def sql(self, quantile: float, name: str = "estimates") -> str:
        """`WITH …` up to the table `name`: `k0 …`, `a0, a0_stderr, a0_low, a0_high …`.

        `quantile` is how many standard errors the interval reaches to each side. What the session
        has computed already stands in `tables`, which have to be there when the SQL runs.
        """
        # the order matters: a later stage tells the earlier ones what it needs of them
        sums = [self._sums(aggregate) for aggregate in self._question.aggregates]
        contributions = self._contributions() if self._weights else ""
        if self._large:
            large = self._large_column()
            contributions = f"shown AS ({large.classes()}), {large.contributions()}"
        return (
            f"WITH classes AS MATERIALIZED ({self._classes()}), {contributions}"
            f"groups AS ({self._groups()}), {name} AS ({self._estimates(sums, quantile)})"
        )

    def _classes(self) -> str:
        split = [
            f"{over(key, self._records)} AS k{place}"
            for place, key in enumerate(self._question.keys)
            if not key.sensitive
        ]
        split += self._mixed.listed()
        for column, name in self._shown.items():
            split.append(f"records.{quoted(self._names[column])} AS {name}")
        known = [over(term, self._records) for term in self._question.where if not term.sensitive]
        sums = RecordSums(split, self._moments.listed(), known)
        return self._session.counted(sums, self._tables)

    def _contributions(self) -> str:
        if len(self._weights) == 1 and not self._mixed.names:
            # the weights alone know every published value: no need to look at the records
            name, weights = self._weights[0]
            before, source = "", f"{quoted(name)} AS w0"
            split = [f"w0.{quoted(weights.keys[c])} AS {r}" for c, r in self._shown.items()]
        else:
            carried = [*self._mixed.names, *self._shown.values()]
            before = f"profiles AS (SELECT DISTINCT {', '.join(carried)} FROM classes), "
            source = "profiles AS p"
            split = [f"p.{name}" for name in carried]
            for place, (name, weights) in enumerate(self._weights):
                same = [
                    f"p.{self._shown[column]} IS NOT DISTINCT FROM w{place}.{quoted(inside)}"
                    for column, inside in weights.keys.items()
                ]
                source += f" JOIN {quoted(name)} AS w{place} ON {' AND '.join(same)}"
        split += [f"{sql} AS k{place}" for place, sql in self._keys.items()]
        return (
            f"{before}contributions AS (SELECT {', '.join([*split, *self._weighted.listed()])} "
            f"FROM {source}{where(self._where)}{group_by(len(split))}), "
        )

    def _large_column(self) -> LargeColumn:
        ((name, _),) = self._weights
        (shown,) = self._shown.values()
        quasi = [place for place in range(len(self._question.keys)) if place not in self._keys]
        return LargeColumn(
            name,
            shown,
            self._mixed.names,
            [f"k{place}" for place in quasi],
            self._moments.names,
            self._keys,
            self._weighted.by_name(),
            self._where,
        )

    def _groups(self) -> str:
        keys = [
            f"{'t' if place in self._keys else 'c'}.k{place}"
            for place in range(len(self._question.keys))
        ]
        source = "classes AS c"
        if self._weights:
            same = [
                f"c.{name} IS NOT DISTINCT FROM t.{name}"
                for name in (*self._mixed.names, *self._shown.values())
            ]
            if self._large:
                source, same = "shown AS c", ["c.whole = t.whole", *same]
            source += f" JOIN contributions AS t ON {' AND '.join(same)}"
        return (
            f"SELECT {', '.join([*keys, *self._grouped.listed()])} FROM {source}"
            f"{group_by(len(keys))}"
        )

    def _estimates(self, sums: list[Sums], quantile: float) -> str:
        columns = [f"k{place}" for place in range(len(self._question.keys))]
        for place, each in enumerate(sums):
            columns += [
                f"CAST({each.value} AS DOUBLE) AS a{place}",
                f"CASE WHEN a{place} IS NOT NULL THEN "
                # rounding can leave a variance just below 0
                f"sqrt(greatest(coalesce({each.variance}, 0e0), 0e0)) END AS a{place}_stderr",
                f"a{place} - {quantile:.17e} * a{place}_stderr AS a{place}_low",
                f"a{place} + {quantile:.17e} * a{place}_stderr AS a{place}_high",
            ]
        return f"SELECT {', '.join(columns)} FROM groups"

    def _sums(self, aggregate: Aggregate) -> Sums:
        argument = aggregate.argument
        on_records = [over(t, self._records) for t in aggregate.filter if not t.sensitive]
        on_originals = [self._weighed(t) for t in aggregate.filter if t.sensitive]
        if argument is not None and argument.sensitive:
            return self._general(aggregate.function, argument, on_records, on_originals)
        return self._by_moments(aggregate.function, argument, on_records, on_originals)

    def _by_moments(
        self, function: str, argument: Term | None, on_records: list[str], on_originals: list[str]
    ) -> Sums:
        """An argument of quasi columns alone: g(r, x) = e(r) · 1{condition on x}."""
        records = _filter(on_records)
        known = over(argument, self._records) if argument is not None else None
        inside = "*" if known is None else known
        n = f"c.{self._moments.add(f'count({inside}){records}')}"
        if not self._keys and not self._where and not on_originals:
            # no sensitive column touches it: counted, not estimated
            z, chosen, noise, least = "1e0", "", "0e0", ""
        else:
            weighted = f"coalesce(sum({self._weight()}){_filter(on_originals)}, 0e0)"
            z = f"t.{self._weighted.add(weighted)}"
            chosen = self._possible(on_originals, "*") if on_originals else ""
            noise = f"({z} * {z} - {z})"
            least = self._least_spread(on_originals)
        truth = z if noise != "0e0" else noise
        total = self._sum(f"{n} * {z}", chosen)
        one = "1e0" if known is None else f"CASE WHEN ({known}) IS NOT NULL THEN 1e0 END"
        total_spread = self._spread(n, one, on_records, noise, truth, chosen)
        if z != "1e0":
            total_spread = f"({total_spread}{self._unseen(n, one, on_records, chosen)})"
        decoys = None if z == "1e0" else self._decoys(on_originals, chosen)
        if decoys is not None:
            counted = decoys.moments(self._sum(n, chosen), total)
            total_spread = decoys.spread(total_spread, counted, counted, counted)
        if function == "count":
            found = Sums(f"coalesce({total}, 0e0)", total_spread)
            return found.at_least(self._sum(f"{n} * {least}", chosen)) if least else found
        assert known is not None
        e = f"CAST({known} AS DOUBLE)"
        s = f"c.{self._moments.add(f'sum({e}){records}')}"
        q = f"c.{self._moments.add(f'sum({e} * {e}){records}')}"
        present = self._sum(n, chosen)
        value = self._sum(f"{s} * {z}", chosen)
        variance = self._spread(q, f"{e} * {e}", on_records, noise, truth, chosen)
        covariance = self._spread(s, e, on_records, noise, truth, chosen)
        if z != "1e0":
            variance = f"({variance}{self._unseen(n, e, on_records, chosen)})"
        if decoys is not None:
            summed = Moments(self._sum(s, chosen), value)
            squared = decoys.moments(self._sum(q, chosen), self._sum(f"{q} * {z}", chosen))
            variance = decoys.spread(variance, squared, summed, summed)
            covariance = decoys.spread(covariance, summed, summed, counted)
        floors = [self._sum(f"{moment} * {least}", chosen) for moment in (q, n, s)] if least else []
        if function == "sum":
            found = Sums(f"CASE WHEN {present} > 0 THEN {value} END", variance)
            return found.at_least(floors[0]) if floors else found
        found = _ratio(present, value, total, variance, total_spread, covariance)
        return found.at_least(_ratio(present, value, total, *floors).variance) if floors else found

    def _least_spread(self, on_originals: list[str]) -> str:
        """The smallest Var(z | x) of any true value x, where the operator has a closed form.

        An indicator of k among m values shows one of the k with chance kq for a true value outside
        them, and one of the others with chance (m−k)q for one inside, q = (1−p)/m. No table of
        people makes the variance smaller, but an estimate from few records can be.
        """
        table = self._weights[0][1].table
        if len(self._weights) != 1 or "kept" not in table.column_names:
            return ""
        inside = f"t.{self._weighted.add(f'count(*){_filter(on_originals)}')}"
        if "part" in table.column_names:
            p = f"t.{self._weighted.add('max(w0.kept)')}"
            m = f"t.{self._weighted.add('max(w0.size)')}"
        else:
            p, m = f"{table['kept'][0].as_py():.17e}", f"{table['size'][0].as_py()}"
        chances = [f"({k} * (1 - {p}) / {m})" for k in (inside, f"({m} - {inside})")]
        return f"(least({', '.join(f'{c} * (1 - {c})' for c in chances)}) / ({p} * {p}))"

    def _decoys(self, on_originals: list[str], chosen: str) -> _Decoys | None:
        """What a closed-form error bar needs to know, where the one sensitive column has one."""
        if len(self._weights) != 1 or self._weights[0][1].decoys is None:
            return None
        known = {}
        for name, sql in _DECOY_COLUMNS.items():
            inside = f"t.{self._weighted.add(f'{sql}{_filter(on_originals)}')}"
            known[name] = self._grouped.add(f"{sql[:3]}({inside}){chosen}")
        return _Decoys(self._weights[0][1].decoys, **known)

    def _general(
        self, function: str, argument: Term, on_records: list[str], on_originals: list[str]
    ) -> Sums:
        """Any argument: g(r, x) = e(r, x) · 1{condition}, null where e is null."""
        n = f"c.{self._moments.add(f'count(*){_filter(on_records)}')}"
        inside = self._weighed(argument)
        known = _filter([*on_originals, f"({inside}) IS NOT NULL"])
        weight = self._weight()
        u = f"t.{self._weighted.add(f'coalesce(sum({weight}){known}, 0e0)')}"
        chosen = self._possible(on_originals, inside)
        counted = self._sum(f"{n} * {u}", chosen)
        counted_spread = self._spread(n, "1e0", on_records, f"({u} * {u} - {u})", u, chosen)
        if function == "count":
            return Sums(f"coalesce({counted}, 0e0)", counted_spread)
        e = f"CAST({inside} AS DOUBLE)"
        z = f"t.{self._weighted.add(f'sum({weight} * {e}){known}')}"
        v = f"t.{self._weighted.add(f'sum({weight} * {e} * {e}){known}')}"
        present = self._sum(n, chosen)
        value = self._sum(f"{n} * {z}", chosen)
        variance = self._spread(n, "1e0", on_records, f"({z} * {z} - {v})", v, chosen)
        if function == "sum":
            return Sums(f"CASE WHEN {present} > 0 THEN {value} END", variance)
        covariance = self._spread(n, "1e0", on_records, f"({z} * {u} - {z})", z, chosen)
        return _ratio(present, value, counted, variance, counted_spread, covariance)

    def _spread(
        self, moment: str, each: str, on_records: list[str], noise: str, truth: str, chosen: str
    ) -> str:
        """Σ noise over the records' draws; `moment` is the sum of `each` over the records."""
        if self._scale is None:
            return self._sum(f"{moment} * {noise}", chosen)
        copies, sampled = self._scale
        scaled = f"sum({copies} * ({each}))"
        all_of_it = f"c.{self._moments.add(f'{scaled}{_filter(on_records)}')}"
        of_samples = self._moments.add(f"{scaled}{_filter([*on_records, sampled])}")
        return self._sum(
            f"({all_of_it} * {noise} + coalesce(c.{of_samples}, 0e0) * {truth})", chosen
        )

    def _unseen(self, count: str, each: str, on_records: list[str], chosen: str) -> str:
        """What two draws that were not seen would add, each copied as often as the mean record."""
        if self._scale is None:
            return ""
        copies, _ = self._scale
        largest = max(weights.largest for _, weights in self._weights)
        records = _filter(on_records)
        scaled = self._moments.add(f"sum({copies}){records}")
        squares = self._moments.add(f"sum({copies} * ({each}) * ({each})){records}")
        n, s = self._sum(count, chosen), self._sum(f"c.{scaled}", chosen)
        q = self._sum(f"c.{squares}", chosen)
        # 2 w² (s/n)² (q/s), which fades out where nothing was copied
        return f" + {2 * largest**2:.17e} * {s} * {q} / ({n} * {n}) * (1 - {n} / {s})"

    def _sum(self, inside: str, chosen: str) -> str:
        signed = f"t.sign * ({inside})" if self._large else inside
        return self._grouped.add(f"sum({signed}){chosen}")

    def _possible(self, on_originals: list[str], inside: str) -> str:
        """Leave out the rows to which no original value contributes: 0 · NaN would be NaN."""
        count = self._weighted.add(f"count({inside}){_filter(on_originals)}")
        return f" FILTER (WHERE t.{count} > 0)"

    def _weight(self) -> str:
        # independent operators: the weights multiply
        return " * ".join(f"w{place}.weight" for place in range(len(self._weights)))

    def _weighed(self, term: Term) -> str:
        def carry(sql: str) -> Node:
            return exp.column(self._mixed.add(sql), table="p")

        return hoisted(term, self._records, self._originals, carry)


def _ratio(
    present: str, value: str, count: str, variance: str, count_variance: str, covariance: str
) -> Sums:
    """R = N / D with Var R ≈ (Var N − 2 R Cov + R² Var D) / D² (delta method)."""
    ratio = f"({value} / {count})"
    return Sums(
        f"CASE WHEN {present} > 0 AND {count} <> 0 THEN {ratio} END",
        f"({variance} - 2 * {ratio} * {covariance} + {ratio} * {ratio} * {count_variance}) "
        f"/ ({count} * {count})",
    )


def _filter(conditions: list[str]) -> str:
    return f" FILTER (WHERE {all_of(conditions)})" if conditions else ""
