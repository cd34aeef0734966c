"""Perturbed releases: no published value tells more of a true one than the promise allows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, concerns
from sfumato.audits.catalogue import Disclosure
from sfumato.audits.findings import Finding
from sfumato.columns import quoted, value_text
from sfumato.draws import IntArray
from sfumato.engines.counting import count_holders
from sfumato.guarantees import OddsGuarantee, RhoPrivacy, SmallSum
from sfumato.guarantees.rho import SHARES_READER
from sfumato.mechanisms.partitioned import PartitionedPlan, SubTables
from sfumato.mechanisms.perturbed import within
from sfumato.operators import Decoy, Parts
from sfumato.release import PerturbedRelease

ENTRYWISE = ("uniform", "fine-grain")  # each record by one matrix over the values


@concerns(PerturbedRelease)
def check_amplification(case: AuditCase) -> Iterator[Finding]:
    """No published value raises the odds of a true one beyond its limit: exactly, value by value.

    A value whose limit is infinite, or that is not covered, may rise as it will (thesis,
    Theorem 7). Sub-tables have a check of their own.
    """
    guarantee = case.guarantee
    if not isinstance(guarantee, OddsGuarantee):
        return
    for column, operator in case.release.operators.items():
        if operator.form not in ENTRYWISE:
            continue
        histogram = case.profile.histograms[column]
        if case.release.manifest.joint:
            yield _of_all_columns(case, guarantee, column)
            continue
        limits = guarantee.odds_limits(histogram)
        gains = operator.odds_gains()
        # a value beyond its limit, or else the one that comes closest
        codes = [code for code, limit in enumerate(limits) if limit is not None]
        if not codes:
            continue
        beyond = [code for code in codes if not within(gains[code], limits[code])]
        if beyond and case.rows_of_people_withheld:
            # shares are of the drawn rows, which the receipt has: at most of all who have a value
            limits = guarantee.odds_limits(count_holders(case.table)[column])
            beyond = [code for code in beyond if not within(gains[code], limits[code])]
            if not beyond:
                continue  # undecided

        def used(code: int) -> float:
            gain, limit = gains[code], limits[code]  # noqa: B023
            return math.inf if gain is None or limit is None else float(gain / limit)

        code = max(beyond or codes, key=used)
        gain, limit = gains[code], limits[code]
        assert limit is not None
        wrong = f"{value_text(histogram.values[code])}: a published value tells more than that"
        yield Finding.limited(
            catalogue.AMPLIFICATION,
            math.inf if gain is None else gain,
            limit,
            column=column,
            wrong=wrong,
            # a limit that does not follow from shares is a number of the promise
            disclosure=None if guarantee.limits_follow_shares else Disclosure.PUBLIC,
        )


def _of_all_columns(case: AuditCase, guarantee: OddsGuarantee, column: str) -> Finding:
    """The draws about a person together raise the odds of nothing beyond the smallest limit."""
    drawn = case.release.operators.values()
    try:
        product: Fraction | float = math.prod(one.amplification() for one in drawn)
    except ZeroDivisionError:
        product = math.inf
    return Finding.limited(
        catalogue.AMPLIFICATION,
        product,
        guarantee.common_limit(column, case.profile.histograms[column].values),
        column=column,
        witness="all columns of a person together",
        disclosure=Disclosure.PUBLIC,
    )


# -- sub-tables ------------------------------------------------------------------------------------


@concerns(PerturbedRelease)
def check_parts(case: AuditCase) -> Iterator[Finding]:
    """Sizes, and posteriors within every part, exactly.

    Counts by (part, true value) come from planning the raw histogram again: the plan is a function
    of it. The posterior of a covered value within a
    part, for who reads all its records, must not exceed rho2; in releases that do not say
    `reader=shares`, which 0.1.0 wrote, for who reads one of them.
    """
    for column, operator in case.release.operators.items():
        if not isinstance(operator, Parts):
            continue
        quotas = quotas_of(case, column, operator)
        if quotas is None:
            wrong = "they are not those that the mechanism makes of this table"
            yield Finding.plain(catalogue.SUBTABLES, wrong, column=column)
            continue
        names = ", ".join(map(quoted, case.release.shown_as(case.release.column(column))))
        shown = case.columns(f"SELECT {names}, count(*)::BIGINT AS n FROM published GROUP BY ALL")
        symbols, counts = case.release.shown_codes(shown, column), shown.column("n").to_numpy()
        sizes = np.bincount(
            operator.symbol_parts[symbols[symbols >= 0]],
            counts[symbols >= 0],
            minlength=len(operator.parts),
        )
        off = np.abs(sizes - quotas.sum(axis=1))
        wrong = f"part {int(off.argmax())}"
        yield Finding.limited(catalogue.PART_SIZES, int(off.sum()), column=column, wrong=wrong)
        if isinstance(case.guarantee, RhoPrivacy):
            yield _posterior(case, column, operator, quotas, case.guarantee)


def quotas_of(case: AuditCase, column: str, operator: Parts) -> IntArray | None:
    """Counts by (part, value), planned from the raw histogram again."""
    plan = case.planned(PartitionedPlan)
    if plan is None:
        return None
    cut = plan.columns[column]
    return cut.quotas if cut.operator == operator else None


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
        catalogue.PART_POSTERIOR, float(worst), float(promise.rho2), column=column, witness=witness
    )


# -- decoys ----------------------------------------------------------------------------------------


@concerns(SmallSum)
def check_decoys(case: AuditCase) -> Iterator[Finding]:
    """Groups as large as the promise asks for, and no value commoner than there are groups."""
    guarantee = case.guarantee
    if not isinstance(guarantee, SmallSum):
        return
    for column, operator in case.release.operators.items():
        if not isinstance(operator, Decoy):
            wrong = f"has no decoys; the promise asks for groups of {guarantee.size}"
            yield Finding.plain(catalogue.GROUP_SIZE, wrong, column=column)
            continue
        histogram, size = case.profile.histograms[column], operator.groups
        yield Finding.limited(catalogue.GROUP_SIZE, size, guarantee.size, column=column)
        common = int(np.argmax(histogram.counts))
        people, most = int(histogram.counts[common]), histogram.rows // size
        name = value_text(histogram.values[common])
        wrong = f"{name} would repeat in a group"
        yield Finding.limited(catalogue.ELIGIBILITY, people, most, column=column, wrong=wrong)
        # where posteriors are limited besides: each of a group's values is one's own with 1/c
        ceilings = guarantee.ceilings(histogram)
        lowest = ceilings.index(min(ceilings))
        if ceilings[lowest] < 1:
            yield Finding.limited(
                catalogue.POSTERIOR,
                Fraction(1, size),
                ceilings[lowest],
                column=column,
                about=value_text(histogram.values[lowest]),
                witness=f"one of {size} different values",
            )
