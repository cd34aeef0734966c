"""Sub-tables: does each keep the promise on its own, and what does membership tell?"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.findings import Direction, Finding
from sfumato.audits.perturbed import fit_finding, group_expression
from sfumato.columns import value_text, value_to_json
from sfumato.draws import IntArray
from sfumato.errors import DataError
from sfumato.guarantees import RhoPrivacy
from sfumato.guarantees.rho import SHARES_READER
from sfumato.mechanisms.partitioned import PartitionedPerturbation, SubTables, cut_table
from sfumato.operators import Parts


def check_parts(case: AuditCase) -> Iterator[Finding]:
    """Sizes, posteriors within every part, exactly; the fit; and what the part number tells.

    Counts by (part, true value) come from the receipt or, without one, from planning the raw
    histogram again: the plan is a function of it. The posterior of a covered value within a
    part, for who reads all its records, must not exceed rho2; in releases that do not say
    `reader=shares`, which 0.1.0 wrote, for who reads one of them.
    """
    for index, (column, operator) in enumerate(case.release.operators.items()):
        if not isinstance(operator, Parts):
            continue
        yield from _apart(case, column, operator)
        quotas = quotas_of(case, column, operator)
        shown = _shown_counts(case, index, column, operator)
        if quotas is None:
            yield Finding.plain(
                catalogue.SUBTABLES,
                False,
                column=column,
                witness="they are not those that the mechanism makes of this table; only a "
                "receipt (publish --receipt) could show that they keep the promise",
            )
            continue
        sizes = np.bincount(
            operator.symbol_parts, shown[1].sum(axis=0), minlength=len(operator.parts)
        )
        off = np.abs(sizes - quotas.sum(axis=1))
        yield Finding.none(
            catalogue.PART_SIZES,
            int(off.sum()),
            column=column,
            witness=f"part {int(off.argmax())}" if off.any() else None,
        )
        if isinstance(case.guarantee, RhoPrivacy):
            yield _posterior(case, column, operator, quotas, case.guarantee)
        yield _fit(case, column, operator, quotas, *shown)
        yield _membership(case, column, operator, quotas)


def _apart(case: AuditCase, column: str, operator: Parts) -> Iterator[Finding]:
    """Whether values that the mechanism holds apart share a sub-table."""
    mechanism = case.mechanism
    if not isinstance(mechanism, PartitionedPerturbation) or mechanism.apart is None:
        return
    histogram = case.profile.histograms[column]
    apart = set(mechanism.codes_apart(histogram))
    shared = [sorted(apart & set(part.codes)) for part in operator.parts]
    broken = [number for number, codes in enumerate(shared) if len(codes) > 1]
    yield Finding.none(
        catalogue.PART_APART,
        len(broken),
        column=column,
        witness=f"part {broken[0]} can be" if broken else None,
        listed=tuple(value_text(histogram.values[c]) for c in shared[broken[0]]) if broken else (),
    )


def quotas_of(case: AuditCase, column: str, operator: Parts) -> IntArray | None:
    """Counts by (part, value)."""
    if case.trace is not None:
        return _traced(case, column, operator)
    mechanism, guarantee = case.mechanism, case.guarantee
    if not isinstance(mechanism, PartitionedPerturbation) or not isinstance(guarantee, RhoPrivacy):
        return None
    histogram = case.profile.histograms[column]
    cut = cut_table(histogram, guarantee, mechanism.inside, mechanism.codes_apart(histogram))
    return cut.quotas if cut.operator == operator else None


def _traced(case: AuditCase, column: str, operator: Parts) -> IntArray:
    assert case.trace is not None
    pairs = case.trace.numbers(f"{column} part") * operator.domain + case.trace.numbers(column)
    shape = (len(operator.parts), operator.domain)
    return np.bincount(pairs, minlength=shape[0] * shape[1]).reshape(shape)


def _shown_counts(
    case: AuditCase, index: int, column: str, operator: Parts
) -> tuple[IntArray, IntArray]:
    """Counts by (hash group of the quasi columns, value), raw; and by symbol, published."""
    values = case.profile.histograms[column].values
    group, groups = group_expression(case, len(values))
    _, shown = case.release.shown_as(case.release.column(column))
    connection = case.connect()
    raw = np.zeros((groups, len(values)), np.int64)
    query = f"SELECT {group} AS g, __code_{index} AS v, count(*) FROM raw GROUP BY ALL"
    for g, code, count in connection.execute(query).fetchall():
        raw[g, code] = count
    published = np.zeros((groups, operator.values), np.int64)
    codes = {value_to_json(value): code for code, value in enumerate(values)}
    query = (
        f"SELECT {group} AS g, {quoted(shown)} AS p, {quoted(column)} AS v, count(*) "
        "FROM published GROUP BY ALL"
    )
    counted = connection.sql(query).to_arrow_table()  # DuckDB's own rows need pytz for instants
    for g, part, value, count in zip(*(c.to_pylist() for c in counted.columns), strict=True):
        inside = 0 <= part < len(operator.parts)
        symbol = int(operator.lookup[part, codes[value_to_json(value)]]) if inside else -1
        if symbol < 0:
            raise DataError(
                f"The release shows {value_text(value)} in part {part} of column {column!r}, "
                "where its operator cannot draw it. Fetch the release again."
            )
        published[g, symbol] += count
    return raw, published


def _posterior(
    case: AuditCase, column: str, operator: Parts, quotas: IntArray, promise: RhoPrivacy
) -> Finding:
    histogram = case.profile.histograms[column]
    uncovered = set(promise.left_out(histogram))
    cut = SubTables(histogram, quotas, operator, (), coupled=promise.reader == SHARES_READER)
    worst, witness = Fraction(0), ""
    symbols = zip(operator.symbol_parts, operator.symbol_codes, cut.rises(), strict=True)
    for number, code, rise in symbols:
        size, count = int(quotas[number].sum()), int(quotas[number, code])
        if code in uncovered or count == 0:
            continue
        odds = None if rise is None or count == size else rise * Fraction(count, size - count)
        posterior = Fraction(1) if odds is None else odds / (1 + odds)
        if posterior > worst:
            worst, witness = posterior, f"{value_text(histogram.values[code])} in part {number}"
    return Finding.limited(
        catalogue.PART_POSTERIOR,
        float(worst),
        Direction.AT_MOST,
        float(promise.rho2),
        column=column,
        witness=witness,
    )


def _fit(
    case: AuditCase,
    column: str,
    operator: Parts,
    quotas: IntArray,
    raw: IntArray,
    published: IntArray,
) -> Finding:
    """From values to symbols: the part by its quota, then the part's operator."""
    totals = np.maximum(quotas.sum(axis=0), 1)
    chances = quotas[operator.symbol_parts, operator.symbol_codes] / totals[operator.symbol_codes]
    if len(raw) == 1:  # the quotas are met exactly: look at the draws within parts alone
        counts = quotas[operator.symbol_parts, operator.symbol_codes]
        return fit_finding(case, column, counts[None, :], published, operator.matrix())
    reach = np.zeros((operator.domain, operator.values))
    reach[operator.symbol_codes, np.arange(operator.values)] = chances
    return fit_finding(case, column, raw, published, reach @ operator.matrix())


def _membership(case: AuditCase, column: str, operator: Parts, quotas: IntArray) -> Finding:
    """Not a limit: a statement of what everybody learns from the part number (errata T11)."""
    values = case.profile.histograms[column].values
    fewest = min(range(len(operator.parts)), key=lambda n: len(operator.parts[n].codes))
    named = [value_text(values[code]) for code in operator.parts[fewest].codes]
    return Finding.info(
        catalogue.PART_MEMBERSHIP,
        len(named),
        column=column,
        witness=f"part {fewest}, {int(quotas[fewest].sum()):,} records, can only be",
        listed=tuple(named),
    )
