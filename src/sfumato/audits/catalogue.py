"""Every check that an audit makes: its title, what a report may show of it, what it is for.

A finding names its check by one of these values, never by a title: titles are for reading.
A guarantee or mechanism of its own may bring checks of its own; `AuditCheck(...)` is all they need.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

Figure = float | int | Fraction | str


class Disclosure(Enum):
    """What may be shown of a finding to people who may not see the raw table."""

    PUBLIC = "public"  # everything follows from the release, its operator and the promise
    DIFFERENCES = "differences"  # a number of differences, 0 where all is well; no witness
    CHANCE = "chance"  # a chance that tells nothing finer than its first two digits; no witness
    WITHOUT_LIMIT = "without limit"  # the limit follows from shares of the raw table
    VERDICT = "verdict"  # that it holds or fails, and nothing else


class Direction(Enum):
    """On which side of its limit a figure has to lie."""

    AT_MOST = "at most"
    AT_LEAST = "at least"
    EXACTLY = "exactly"
    ONE_OF = "one of"

    def allows(self, value: Figure, limit: Figure) -> bool:
        """Whether a figure keeps its limit.

        >>> Direction.AT_MOST.allows(3, 2), Direction.ONE_OF.allows("system", "system, key-file")
        (False, True)
        """
        if self is Direction.ONE_OF:
            return str(value) in str(limit).split(", ")
        if self is Direction.EXACTLY or isinstance(value, str) or isinstance(limit, str):
            return value == limit
        return value <= limit if self is Direction.AT_MOST else value >= limit


@dataclass(frozen=True)
class AuditCheck:
    """One check. `title` may name {column} and {about}; `judges` says that it holds a column to
    its promise, where others only see whether the release is what it says. A figure of it has to
    lie on the side of its limit that `direction` names.

    >>> GROUP_SIZE.title_of("disease")
    'group size of disease'
    """

    name: str
    title: str
    disclosure: Disclosure = Disclosure.VERDICT
    judges: bool = False
    direction: Direction = Direction.AT_MOST

    def title_of(self, column: str | None = None, about: str | None = None) -> str:
        return self.title.format(column=column, about=about)


_PUBLIC, _DIFFERENCES, _CHANCE = Disclosure.PUBLIC, Disclosure.DIFFERENCES, Disclosure.CHANCE
_EXACTLY, _AT_LEAST = Direction.EXACTLY, Direction.AT_LEAST

# every release
RANDOMNESS = AuditCheck("randomness", "randomness", _PUBLIC, direction=Direction.ONE_OF)
ROWS = AuditCheck("rows", "rows", _DIFFERENCES, direction=_EXACTLY)
WITHHELD = AuditCheck("withheld", "rows that the mechanism leaves out", _PUBLIC, direction=_EXACTLY)
QUASI_COLUMNS = AuditCheck(
    "quasi-columns", "quasi-identifiers that differ from the table's", _PUBLIC
)
MECHANISM = AuditCheck("mechanism", "mechanism that keeps this promise", _PUBLIC)
SPELLING = AuditCheck("spelling", "parts that are not as the content spells them", _PUBLIC)
BYTES = AuditCheck("bytes", "bytes and words of another version", _PUBLIC)
OLDER = AuditCheck("older", "promise of an older version", _PUBLIC, judges=True)
OPERATORS = AuditCheck("operators", "operators as the plan makes them again", _PUBLIC)
FACTS = AuditCheck("facts", "facts of the manifest that are not the table's")
DOMAINS = AuditCheck("domains", "values and domains that are not those of what is published")
PROMISE = AuditCheck("promise", "promise about {column}", judges=True)

# people with several rows
PERSON_ROWS = AuditCheck(
    "person-rows",
    "rows published of all people, one of each",
    _PUBLIC,
    direction=_EXACTLY,
)
PERSON_TOGETHER = AuditCheck(
    "person-together", "people with several records, each of which has the promise to itself"
)
PERSON_MOST = AuditCheck("person-most", "people with more than one row published", _DIFFERENCES)

# made again from the receipt
KEY = AuditCheck("key", "key of the draws", _PUBLIC)
REPLAY = AuditCheck(
    "replay", "records that are not as the receipt repeats them", _DIFFERENCES, True
)
REPLAY_MANIFEST = AuditCheck(
    "replay-manifest", "parts of the manifest that are not as the receipt repeats them", _PUBLIC
)

# draws, without the receipt
DRAWS = AuditCheck("draws", "draws by the stated operators", _CHANCE, direction=_AT_LEAST)
POWER = AuditCheck("power", "people of a group that would not be noticed were they shown truly")

# perturbed values
AMPLIFICATION = AuditCheck(
    "amplification", "amplification of {column}", Disclosure.WITHOUT_LIMIT, judges=True
)

# sub-tables
SUBTABLES = AuditCheck("sub-tables", "sub-tables of {column}", judges=True)
PART_SIZES = AuditCheck("part-sizes", "sizes of the parts of {column}")
PART_POSTERIOR = AuditCheck(
    "part-posterior", "chance of a value of {column} within its part", _CHANCE, judges=True
)

# decoys
GROUP_SIZE = AuditCheck(
    "group-size", "group size of {column}", _PUBLIC, judges=True, direction=_EXACTLY
)
ELIGIBILITY = AuditCheck("eligibility", "eligibility of {column}", judges=True)

# samples copied back
PLAN = AuditCheck("plan", "plan")
PLAN_PART = AuditCheck("plan-part", "{about} as planned")
EXACT_TAILS = AuditCheck("exact-tails", "exact tails of {column}", _CHANCE, True, _AT_LEAST)
GROUP_SIZES = AuditCheck("group-sizes", "group sizes", _DIFFERENCES)
COPIES = AuditCheck("copies", "copies of the sample", _DIFFERENCES)
SCALES = AuditCheck("scales", "scales of parts", _DIFFERENCES)

# buckets
BUCKET_SIZES = AuditCheck(
    "bucket-sizes", "buckets that list more or fewer values than they have records", _DIFFERENCES
)
BUCKET_HISTOGRAM = AuditCheck(
    "bucket-histogram", "values listed more or less often than the table has them", _DIFFERENCES
)
MEMBERS = AuditCheck(
    "members", "values that more records of a bucket have than it lists", _DIFFERENCES
)
ROOM = AuditCheck(
    "room", "values of people alike that do not fit into their buckets' lists", _DIFFERENCES
)
CEILINGS = AuditCheck(
    "ceilings", "values of {column} above their ceiling", _DIFFERENCES, judges=True
)
BLOCKS = AuditCheck(
    "blocks", "cuts of blocks that tell more than quasi-identifiers", _DIFFERENCES, judges=True
)
REFUSED_BLOCKS = AuditCheck(
    "refused-blocks",
    "values above what buckets may hold where a cut was refused",
    _DIFFERENCES,
    judges=True,
)
POSTERIOR = AuditCheck("posterior", "largest posterior of {about}", judges=True)


# ranges and sets
VALUE_COUNTS = AuditCheck("value-counts", "published counts of {column}, off by")
MARGINALS = AuditCheck("marginals", "people of {column} that the manifest counts in another cell")
COVERAGE = AuditCheck("coverage", "records that fit fewer than {about}")
IMPOSSIBLE = AuditCheck("impossible", "records whose rows cannot keep the promise{about}")
MATCH_SHARE = AuditCheck(
    "match-share",
    "largest share of a value of {column} among the matches of one {about}",
    judges=True,
)
GROUP_SHARE = AuditCheck(
    "group-share", "largest share of a value of {column} in a group", judges=True
)
