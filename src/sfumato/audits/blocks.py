"""Blocks of local buckets: is their tree the one that quasi-identifiers give, less what may be
refused?

The unrefused tree is grown again from the raw table. The published one must be a pruning of it; no
cut may leave a value less than one exchange away from its ceiling; buckets of a block whose cut was
refused keep lower ceilings; and refusals are draws, of which the law is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.bucketed import Listing
from sfumato.audits.case import AuditCase, concerns
from sfumato.audits.chances import FloatArray, Tests, count_exponents
from sfumato.audits.findings import Finding
from sfumato.blocks import BlockTree
from sfumato.columns import Values
from sfumato.engines.binning import count_binned
from sfumato.engines.counting import count_holdings
from sfumato.errors import InfeasibleGuarantee
from sfumato.mechanisms.buckets import LocalBuckets
from sfumato.mechanisms.buckets.feasible import holdings_of, limits_of
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.mechanisms.buckets.tree import ODDS, Node, exchanges, inside_blocks
from sfumato.profile import Holdings
from sfumato.release import BucketedRelease


@dataclass(frozen=True, eq=False)
class TestedCut:
    """A cut that was tested: how many exchanges it is away from breaking a ceiling, None where none
    can; and the block of the release that it would have cut, where it was refused."""

    node: Node
    away: int | None
    block: int | None

    @property
    def wrong(self) -> str | None:
        if self.block is None and self.away is not None and self.away < 1:
            return f"the cut {self.node.cut} leaves a value above its ceiling on one side"
        if self.block is not None and self.away is None:
            return f"the cut {self.node.cut} is not made, although nothing refuses it"
        return None

    @property
    def chance(self) -> float:
        """That it is refused."""
        return 0.0 if self.away is None else float(ODDS) ** -max(self.away, 0)


@dataclass(frozen=True, eq=False)
class BlocksAgain:
    """The cuts that were tested down to the blocks of a release, and the first cut that is not the
    unrefused tree's."""

    holdings: Holdings
    limits: Limits
    cuts: list[TestedCut]
    candidates: int  # cuts of the unrefused tree
    stranger: str | None


def blocks_again(case: AuditCase) -> BlocksAgain | None:
    """The unrefused tree of the table beside that of the release; None where there is none to grow:
    for another mechanism, an older format, rows of people that nobody knows, or a promise that the
    table cannot have."""
    release, mechanism = case.release, case.mechanism
    if not isinstance(release, BucketedRelease) or not isinstance(mechanism, LocalBuckets):
        return None
    if case.rows_of_people_withheld or release.manifest.format < 3:
        return None
    profile = case.profile
    if len(profile.histograms) > 1:
        held = count_holdings(case.looked_at, profile.histograms)
        profile = replace(profile, holdings=held)
    try:
        holdings = holdings_of(mechanism.name, profile, case.whole_guarantee)
    except InfeasibleGuarantee:
        return None
    limits = limits_of(holdings, case.whole_guarantee)
    # of equally common values the first of the domain is cut first
    stated = {c.name: c.domain for c in release.quasi if isinstance(c.domain, Values)}
    table = replace(case.looked_at, domains={**case.looked_at.domains, **stated})
    binned = count_binned(table, holdings)
    root, block = mechanism.unrefused(binned.cells, holdings, limits)
    combinations = len(holdings.counts)
    flat = np.bincount(
        block[binned.cell] * combinations + binned.values,
        binned.counts,
        root.after * combinations,
    )
    counts = flat.astype(np.int64).reshape(root.after, combinations)
    marks, people, tight = holdings.by_mark(counts), counts.sum(axis=1), inside_blocks(limits)
    published = iter((release.tree or BlockTree()).cuts)
    cuts, seen = list[TestedCut](), 0

    def compared(node: Node) -> str | None:
        nonlocal seen
        cut = next(published)
        if cut != node.cut and cut is not None:
            return f"{cut}, where quasi-identifiers alone give {node.cut or 'no cut'}"
        if node.sides is not None:
            held = np.stack([marks[side.first : side.after].sum(axis=0) for side in node.sides])
            sizes = np.array([people[side.first : side.after].sum() for side in node.sides])
            refused = seen if cut is None else None
            cuts.append(TestedCut(node, exchanges(held, sizes, tight), refused))
        if cut is None:
            seen += 1
            return None
        assert node.sides is not None
        return compared(node.sides[0]) or compared(node.sides[1])

    stranger = compared(root)
    return BlocksAgain(holdings, limits, cuts, root.after - 1, stranger)


@concerns(BucketedRelease)
def check_blocks(case: AuditCase) -> Iterator[Finding]:
    """The tree of blocks, its cuts, and the ceilings where one was refused."""
    again = case.blocks_again
    if again is None:
        if isinstance(case.mechanism, LocalBuckets) and case.rows_of_people_withheld:
            why = "they follow from the rows of people that were drawn: audit with --receipt"
            yield from [] if case.repeated else [Finding.info(catalogue.BLOCKS, why)]
        return
    wrong = [again.stranger, *(cut.wrong for cut in again.cuts)]
    listed = tuple(text for text in wrong if text is not None)
    yield Finding.limited(catalogue.BLOCKS, len(listed), listed=listed)
    refused = [cut.block for cut in again.cuts if cut.block is not None]
    if again.stranger is None and refused:
        yield _tight(case, again, refused)


def _tight(case: AuditCase, again: BlocksAgain, refused: list[int]) -> Finding:
    """Values above f'' in the buckets of blocks whose cut was refused."""
    release, holdings, broken = case.release, again.holdings, list[str]()
    assert isinstance(release, BucketedRelease)
    starts = [*release.first_buckets, release.plan.buckets]
    runs = ", ".join(f"({starts[block]}, {starts[block + 1]})" for block in refused)
    ceilings = inside_blocks(again.limits).ceilings
    views: list[tuple[str, ...]] = [(column,) for column in case.table.sensitive]
    if holdings.joint:
        views.append(tuple(case.table.sensitive))
    for number, columns in enumerate(views):
        view = Listing(case, columns)
        code_of = {code: code for code in range(len(holdings.views[number].values))}
        if holdings.joint and number == len(views) - 1:
            sizes = tuple(len(domain.values) for domain in view.domains)
            flat = np.ravel_multi_index(tuple(holdings.of[:, : len(sizes)].T), sizes)
            code_of = dict(zip(flat.tolist(), range(len(flat)), strict=True))
        rows = case.rows(
            f"SELECT l.code, s.n, max(l.n) FROM {view.listed} AS l JOIN sizes AS s USING (bucket) "
            f"JOIN (VALUES {runs}) AS r(low, high) ON l.bucket >= r.low AND l.bucket < r.high "
            "WHERE l.code IS NOT NULL GROUP BY ALL ORDER BY ALL"
        )
        for code, size, count in rows:
            mark = int(holdings.starts[number]) + code_of[int(code)]
            if Fraction(int(count), int(size)) > ceilings[mark]:
                broken.append(f"{view.name(int(code))} in {count} of {size}")
    return Finding.limited(catalogue.REFUSED_BLOCKS, len(broken), listed=tuple(broken))


def refusal_tests(case: AuditCase) -> Iterator[Tests]:
    """A cut that is s exchanges away from breaking a ceiling is refused with a chance of r⁻ˢ: each,
    and how many of all that were tested."""
    again = case.blocks_again
    if again is None or again.stranger is not None or not again.candidates:
        return
    chances = np.array([cut.chance for cut in again.cuts])
    refused = np.array([cut.block is not None for cut in again.cuts])
    drawn = np.where(refused, chances, 1 - chances)
    alone = np.zeros(again.candidates)  # as many as could have been tested
    alone[: len(drawn)] = -np.log(np.clip(2 * drawn, 1e-300, 1.0))
    number = np.array([float(refused.sum())])
    whole = count_exponents(number, number, partial(_summed, chances))

    def name(test: int) -> str:
        if test == again.candidates:
            return f"{refused.sum():,} of {len(refused):,} cuts of blocks are refused"
        cut = again.cuts[test]
        done = "made" if cut.block is None else "refused"
        return f"the cut {cut.node.cut} is {done}, {cut.away} exchanges away from a ceiling"

    yield Tests(np.concatenate([alone, whole]), name)


def _summed(chances: FloatArray, slope: float) -> FloatArray:
    return np.array([np.log1p(chances * np.expm1(slope)).sum()])
