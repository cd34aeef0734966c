"""Every check that an audit makes: its title, what a report may show of it, what it is for.

A finding names its check by one of these values, never by a title: titles are for reading.
A guarantee or mechanism of its own may bring checks of its own; `Check(...)` is all they need.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Disclosure(Enum):
    """What may be shown of a finding to people who may not see the raw table."""

    PUBLIC = "public"  # everything follows from the release, its operator and the promise
    DIFFERENCES = "differences"  # a number of differences, 0 where all is well; no witness
    CHANCE = "chance"  # a chance that tells nothing finer than its first two digits; no witness
    WITHOUT_LIMIT = "without limit"  # the limit follows from shares of the raw table
    VERDICT = "verdict"  # that it holds or fails, and nothing else


@dataclass(frozen=True)
class Check:
    """One check. `title` may name {column} and {about}; `judges` says that it holds a column to
    its promise, where others only see whether the release is what it says.

    >>> GROUP_SIZE.title_of("disease")
    'group size of disease'
    """

    name: str
    title: str
    disclosure: Disclosure = Disclosure.VERDICT
    judges: bool = False

    def title_of(self, column: str | None = None, about: str | None = None) -> str:
        return self.title.format(column=column, about=about)


_PUBLIC, _DIFFERENCES, _CHANCE = Disclosure.PUBLIC, Disclosure.DIFFERENCES, Disclosure.CHANCE

# every release
RANDOMNESS = Check("randomness", "randomness", _PUBLIC)
ROWS = Check("rows", "rows", _DIFFERENCES)
WITHHELD = Check("withheld", "rows that the mechanism leaves out", _PUBLIC)
QUASI_COLUMNS = Check("quasi-columns", "quasi-identifiers that differ from the table's", _PUBLIC)
MECHANISM = Check("mechanism", "mechanism that keeps this promise", _PUBLIC)
SPELLING = Check("spelling", "parts that are not as the content spells them", _PUBLIC)
BYTES = Check("bytes", "bytes and words of another version", _PUBLIC)
FACTS = Check("facts", "facts of the manifest that are not the table's")
DOMAINS = Check("domains", "values and domains that are not those of what is published")
PROMISE = Check("promise", "promise about {column}", judges=True)

# people with several rows
PERSON_ROWS = Check("person-rows", "rows published of all people, {about} of each at most", _PUBLIC)
PERSON_TOGETHER = Check(
    "person-together", "people with several records, each of which has the promise to itself"
)
PERSON_MOST = Check("person-most", "people with more than {about} rows published", _DIFFERENCES)

# made again from the receipt
KEY = Check("key", "key of the draws", _PUBLIC)
REPLAY = Check("replay", "records that are not as the receipt repeats them", _DIFFERENCES, True)
REPLAY_MANIFEST = Check(
    "replay-manifest", "parts of the manifest that are not as the receipt repeats them", _PUBLIC
)

# draws, without the receipt
DRAWS = Check("draws", "draws by the stated operators", _CHANCE)
POWER = Check("power", "people of a group that would not be noticed were they shown truly")

# perturbed values
AMPLIFICATION = Check(
    "amplification", "amplification of {column}", Disclosure.WITHOUT_LIMIT, judges=True
)

# sub-tables
SUBTABLES = Check("sub-tables", "sub-tables of {column}", judges=True)
PART_SIZES = Check("part-sizes", "sizes of the parts of {column}")
PART_POSTERIOR = Check(
    "part-posterior", "chance of a value of {column} within its part", _CHANCE, judges=True
)
PART_APART = Check(
    "part-apart", "parts of {column} with values that must not share one", _PUBLIC, judges=True
)

# decoys
GROUP_SIZE = Check("group-size", "group size of {column}", _PUBLIC, judges=True)
ELIGIBILITY = Check("eligibility", "eligibility of {column}", judges=True)
TRACED_GROUPS = Check(
    "traced-groups", "groups of {column} without {about} different values, and values from outside"
)

# samples copied back
PLAN = Check("plan", "plan")
PLAN_PART = Check("plan-part", "{about} as planned")
EXACT_TAILS = Check("exact-tails", "exact tails of {column}", _CHANCE, judges=True)
GROUP_SIZES = Check("group-sizes", "group sizes", _DIFFERENCES)
COPIES = Check("copies", "copies of the sample", _DIFFERENCES)
SCALES = Check("scales", "scales of parts", _DIFFERENCES)

# buckets
BUCKET_SIZES = Check(
    "bucket-sizes", "buckets that list more or fewer values than they have records", _DIFFERENCES
)
BUCKET_HISTOGRAM = Check(
    "bucket-histogram", "values listed more or less often than the table has them", _DIFFERENCES
)
MEMBERS = Check("members", "values that more records of a bucket have than it lists", _DIFFERENCES)
ROOM = Check(
    "room", "values of people alike that do not fit into their buckets' lists", _DIFFERENCES
)
CEILINGS = Check("ceilings", "values of {column} above their ceiling", _DIFFERENCES, judges=True)
POSTERIOR = Check("posterior", "largest posterior of {about}", judges=True)

INTERSECTION = Check(
    "intersection",
    "people whose {column} both releases together tell beyond the promise",
    _DIFFERENCES,
)

# ranges and sets
VALUE_COUNTS = Check("value-counts", "published counts of {column}, off by")
MARGINALS = Check("marginals", "people of {column} that the manifest counts in another cell")
COVERAGE = Check("coverage", "records that fit fewer than {about}")
IMPOSSIBLE = Check("impossible", "records whose rows cannot keep the promise{about}")
SOURCES = Check("sources", "rows without a record of their own with their value")
SPANS = Check("spans", "people that a row spans in the mean beside those that the manifest says")
IRREGULAR = Check(
    "irregular",
    "rows and records without {about} different matches and a value of one",
    _DIFFERENCES,
)
INEXACT = Check("inexact", "rows that do not show exactly their matches", _DIFFERENCES)
MATCH_SHARE = Check(
    "match-share",
    "largest share of a value of {column} among the matches of one {about}",
    judges=True,
)
GROUP_SHARE = Check("group-share", "largest share of a value of {column} in a group", judges=True)
OUTSIDE_GROUP = Check(
    "outside-group", "records outside what a row of their group shows", _DIFFERENCES
)

# one release after another
HISTORY = Check("history", "history")
PERSONAL_DRAWS = Check("personal-draws", "draws that belong to people")
SAME_OPERATOR = Check("same-operator", "operator of {column} as before")
AS_BEFORE = Check("as-before", "people whose {column} is not as published before")
