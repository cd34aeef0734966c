"""Fifty occupations with rough leanings: invented figures with a familiar shape.

Order matters: the k-th occupation has the k-th largest overall share.
"""

from __future__ import annotations

from typing import NamedTuple


class Occupation(NamedTuple):
    """What the model knows of an occupation.

    `schooling` is the education code where it is most common; `men` > 0 leans to men, < 0 to
    women; `years` is the age where it is most common; `employer` names a row of `EMPLOYERS`.
    """

    name: str
    schooling: float
    men: float
    years: float
    employer: str


WORKCLASSES = (
    "private company",
    "self-employed",
    "incorporated business",
    "local government",
    "state government",
    "federal government",
    "family business, unpaid",
)

# relative weight of each work class, in the order of WORKCLASSES
EMPLOYERS: dict[str, tuple[float, ...]] = {
    "company": (88, 4, 3, 2, 1.2, 1.5, 0.3),
    "trade": (68, 22, 7, 1.5, 0.6, 0.4, 0.5),
    "owner": (42, 26, 30, 0.6, 0.3, 0.3, 0.8),
    "school": (24, 2, 0.5, 56, 15, 2, 0.5),
    "state": (12, 0.6, 0.3, 42, 24, 21, 0.1),
    "post": (6, 0.8, 0.4, 1, 1.5, 90, 0.3),
    "care": (72, 4, 3, 9, 8, 3.7, 0.3),
    "farm": (38, 48, 6, 0.8, 0.8, 0.6, 5.8),
    "profession": (52, 19, 20, 3, 3, 2.8, 0.2),
}

OCCUPATIONS = (
    Occupation("manager, general", 12.6, 0.30, 47, "owner"),
    Occupation("truck driver", 8.8, 1.40, 43, "trade"),
    Occupation("school teacher", 14.6, -0.80, 43, "school"),
    Occupation("retail salesperson", 10.8, 0.00, 33, "company"),
    Occupation("administrative assistant", 11.0, -1.70, 46, "company"),
    Occupation("sales manager", 12.4, 0.45, 43, "owner"),
    Occupation("registered nurse", 13.0, -1.60, 44, "care"),
    Occupation("software developer", 14.2, 0.80, 35, "company"),
    Occupation("carpenter", 8.8, 1.90, 38, "trade"),
    Occupation("accountant", 13.8, -0.30, 43, "profession"),
    Occupation("janitor", 8.0, 0.40, 49, "school"),
    Occupation("freight handler", 9.0, 1.00, 31, "company"),
    Occupation("bookkeeper", 11.0, -1.70, 50, "trade"),
    Occupation("cook", 8.2, 0.30, 31, "company"),
    Occupation("cashier", 9.4, -0.80, 26, "company"),
    Occupation("customer service agent", 11.0, -0.60, 33, "company"),
    Occupation("car mechanic", 9.4, 2.20, 38, "trade"),
    Occupation("nursing aide", 9.8, -1.60, 37, "care"),
    Occupation("engineer, mechanical", 14.2, 1.40, 45, "company"),
    Occupation("assembly worker", 9.2, 0.20, 42, "company"),
    Occupation("foreman", 9.8, 1.60, 46, "company"),
    Occupation("police officer", 11.8, 1.20, 38, "state"),
    Occupation("physician", 16.6, 0.50, 46, "profession"),
    Occupation("lawyer", 16.2, 0.60, 46, "profession"),
    Occupation("electrician", 10.0, 2.20, 40, "trade"),
    Occupation("waiter", 10.0, -0.80, 26, "company"),
    Occupation("financial analyst", 14.2, 0.20, 41, "company"),
    Occupation("groundskeeper", 7.4, 1.70, 37, "trade"),
    Occupation("machinist", 9.6, 1.80, 47, "company"),
    Occupation("computer technician", 11.8, 0.80, 37, "company"),
    Occupation("housekeeper", 7.6, -1.70, 43, "company"),
    Occupation("social worker", 14.2, -1.10, 42, "state"),
    Occupation("professor", 16.8, 0.20, 50, "school"),
    Occupation("welder", 8.8, 2.10, 40, "company"),
    Occupation("real-estate agent", 12.4, -0.10, 52, "owner"),
    Occupation("security guard", 10.2, 0.90, 42, "company"),
    Occupation("hairdresser", 10.4, -1.80, 39, "owner"),
    Occupation("plumber", 9.4, 2.30, 40, "trade"),
    Occupation("mail carrier", 10.8, 0.50, 49, "post"),
    Occupation("farmer", 9.4, 1.40, 57, "farm"),
    Occupation("designer", 13.4, -0.10, 37, "owner"),
    Occupation("child care worker", 10.2, -2.00, 36, "trade"),
    Occupation("farm worker", 5.0, 0.90, 34, "farm"),
    Occupation("clergy", 15.2, 1.20, 53, "care"),
    Occupation("firefighter", 11.6, 1.90, 37, "state"),
    Occupation("scientist", 16.4, 0.30, 40, "school"),
    Occupation("librarian", 15.0, -1.20, 51, "school"),
    Occupation("pharmacist", 15.8, -0.10, 43, "care"),
    Occupation("tailor", 7.2, -0.90, 52, "trade"),
    Occupation("pilot", 13.8, 1.80, 45, "company"),
)
