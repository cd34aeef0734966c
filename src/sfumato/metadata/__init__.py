"""What catalogues and other tools want to know of a release, in their own formats.

Everything comes from the manifest and the types in the files: nothing that a release does not say.
"""

from sfumato.metadata.exporting import FORMATS, Exported, export_metadata

__all__ = ["FORMATS", "Exported", "export_metadata"]
