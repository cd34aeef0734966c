"""The release folder: a public format that analysts and other tools read."""

from sfumato.release.bundle import BundleWriter
from sfumato.release.manifest import FileEntry, Manifest, manifest_schema, read_manifest
from sfumato.release.reader import Release, typed_values
from sfumato.release.records import record_files, scan

__all__ = [
    "BundleWriter",
    "FileEntry",
    "Manifest",
    "Release",
    "manifest_schema",
    "read_manifest",
    "record_files",
    "scan",
    "typed_values",
]
