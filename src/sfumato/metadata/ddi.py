"""DDI Codebook 2.5: the codebook of archives of social science."""

from __future__ import annotations

from xml.etree import ElementTree as xml

from sfumato.columns import value_to_json
from sfumato.metadata.described import Described, Field, TableOf

SPACE = "ddi:codebook:2_5"


def ddi(release: Described) -> str:
    """The XML text; elements in the order that the schema prescribes."""
    book = xml.Element("codeBook", {"xmlns": SPACE, "version": "2.5"})
    _study(xml.SubElement(book, "stdyDscr"), release)
    for number, table in enumerate(release.tables):
        _file(xml.SubElement(book, "fileDscr", {"ID": f"F{number}"}), table)
    data = xml.SubElement(book, "dataDscr")
    for number, table in enumerate(release.tables):
        for place, field in enumerate(table.fields):
            _variable(data, field, f"V{number}_{place}", f"F{number}")
    xml.indent(book)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(book, "unicode") + "\n"


def _study(study: xml.Element, release: Described) -> None:
    citation = xml.SubElement(study, "citation")
    _text(xml.SubElement(citation, "titlStmt"), "titl", release.title)
    if release.creator:
        _text(xml.SubElement(citation, "rspStmt"), "AuthEnty", release.creator)
    producer = xml.SubElement(citation, "prodStmt")
    _text(producer, "software", "sfumato", version=release.manifest.sfumato)
    if "://" in release.url:
        _text(xml.SubElement(citation, "distStmt"), "distrbtr", release.url, URI=release.url)
    about = xml.SubElement(study, "stdyInfo")
    for sentence in release.sentences:
        _text(about, "abstract", sentence)
    _text(xml.SubElement(about, "sumDscr"), "anlyUnit", "Person")
    if release.license:
        terms = xml.SubElement(xml.SubElement(study, "dataAccs"), "useStmt")
        _text(terms, "conditions", release.license)


def _file(told: xml.Element, table: TableOf) -> None:
    text = xml.SubElement(told, "fileTxt")
    _text(text, "fileName", ", ".join(table.files))
    _text(text, "fileCont", table.title)
    size = xml.SubElement(text, "dimensns")
    _text(size, "caseQnty", str(table.rows))
    _text(size, "varQnty", str(len(table.fields)))
    _text(text, "fileType", "application/vnd.apache.parquet")


def _variable(data: xml.Element, field: Field, place: str, file: str) -> None:
    numeric = field.basic in ("integer", "number")
    told = xml.SubElement(
        data,
        "var",
        {
            "ID": place,
            "name": field.name,
            "files": file,
            "intrvl": "contin" if numeric and field.values is None else "discrete",
        },
    )
    _text(told, "labl", field.label)
    if field.range is not None and field.range.low is not None:
        ends = {"min": str(field.range.low), "max": str(field.range.high)}
        xml.SubElement(xml.SubElement(told, "valrng"), "range", ends)
    for value in field.values or ():
        category = xml.SubElement(told, "catgry", {"missing": "Y"} if value is None else {})
        _text(category, "catValu", "" if value is None else str(value_to_json(value)))
    if field.column is not None and field.column.recode:
        _text(xml.SubElement(told, "derivation"), "drvdesc", field.column.recode)
    xml.SubElement(told, "varFormat", {"type": "numeric" if numeric else "character"})


def _text(above: xml.Element, name: str, text: str, **attributes: str) -> None:
    xml.SubElement(above, name, attributes).text = _possible(text)


def _possible(text: str) -> str:
    """XML has no control characters, not even escaped: what a text has of them is shown instead.

    >>> _possible("a\\x00b")
    'a\\ufffdb'
    """
    return "".join(
        c if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") else "\ufffd" for c in text
    )
