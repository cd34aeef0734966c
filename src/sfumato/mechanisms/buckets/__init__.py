"""Buckets under ceilings: F'-privacy, l-diversity and beta-likeness with quasi columns untouched.

The records go into buckets; the release shows for each record its bucket, and for each bucket how
often every sensitive value stands in it (F'-privacy paper, Section 3).
"""

from sfumato.mechanisms.buckets.local import LocalBuckets
from sfumato.mechanisms.buckets.plan import BucketPlan
from sfumato.mechanisms.buckets.ways import OptimalBuckets

__all__ = [
    "BucketPlan",
    "LocalBuckets",
    "OptimalBuckets",
]
