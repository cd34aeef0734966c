"""A release described for catalogues and for people: Croissant, and a data dictionary.

Everything comes from the manifest and the types in the files: nothing that a release does not say.
"""

from sfumato.export.exporting import FORMATS, Exported, export_metadata

__all__ = ["FORMATS", "Exported", "export_metadata"]
