"""The release folder: a public format that analysts and other tools read.

A release's kind is a class: `Release(path)` is an instance of one of the five below.
"""

from sfumato.release.bucketed import BucketedRelease
from sfumato.release.bundle import BundleWriter
from sfumato.release.generalized import GeneralizedRelease
from sfumato.release.manifest import (
    FileEntry,
    Manifest,
    PersonRule,
    manifest_schema,
)
from sfumato.release.perturbed import PerturbedRelease
from sfumato.release.reader import KINDS, Release
from sfumato.release.records import scan
from sfumato.release.values import typed_values

__all__ = [
    "KINDS",
    "BucketedRelease",
    "BundleWriter",
    "FileEntry",
    "GeneralizedRelease",
    "Manifest",
    "PersonRule",
    "PerturbedRelease",
    "Release",
    "manifest_schema",
    "scan",
    "typed_values",
]
