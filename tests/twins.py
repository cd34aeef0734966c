"""Twins of two files as they come: hospital stays with repeats, a census without names."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np


def words(text: str) -> list[str]:
    """Values between semicolons, or between blanks."""
    return text.split("; " if ";" in text else None)


STAY: dict[str, tuple[str, list[float]]] = {  # what a stay has, whoever it is of
    "payer_code": ("? MC HM SP BC", [0.4, 0.32, 0.1, 0.1, 0.08]),
    "medical_specialty": (
        "? InternalMedicine Emergency/Trauma Family/GeneralPractice Cardiology Surgery-General "
        "Nephrology Orthopedics Radiologist Psychiatry Pulmonology Urology",
        [0.49, 0.14, 0.08, 0.07, 0.06, 0.04, 0.03, 0.03, 0.02, 0.02, 0.01, 0.01],
    ),
    "max_glu_serum": ("None Norm >200 >300", [0.94, 0.03, 0.02, 0.01]),
    "A1Cresult": ("None >8 Norm >7", [0.83, 0.08, 0.05, 0.04]),
    "change": ("No Ch", [0.5, 0.5]),
    "diabetesMed": ("Yes No", [0.77, 0.23]),
    "readmitted": ("NO >30 <30", [0.54, 0.35, 0.11]),
    "examide": ("No", [1.0]),
    "citoglipton": ("No", [1.0]),
}
DRUGS = (
    "metformin repaglinide nateglinide chlorpropamide glimepiride acetohexamide glipizide "
    "glyburide tolbutamide pioglitazone rosiglitazone acarbose miglitol troglitazone tolazamide "
    "insulin glyburide-metformin glipizide-metformin glimepiride-pioglitazone "
    "metformin-rosiglitazone metformin-pioglitazone"
)
NUMBERS = (  # and the largest of each
    "admission_type_id 8 discharge_disposition_id 28 admission_source_id 25 time_in_hospital 14 "
    "num_lab_procedures 110 num_procedures 7 num_medications 60 number_outpatient 20 "
    "number_emergency 20 number_inpatient 15 number_diagnoses 16"
)


def hospital_file(path: Path, stays: int = 20000, seed: int = 1) -> Path:
    """Stays of patients, 50 columns: `?` where nothing is known, 700 ICD-like diagnosis codes."""
    draw = np.random.default_rng(seed)
    patients = int(stays * 0.7)
    again = draw.integers(0, patients, stays - patients)
    whose = draw.permutation(np.concatenate([np.arange(patients), again]))
    age = np.clip(draw.normal(6.2, 1.7, patients).astype(int), 0, 9)
    gender = draw.choice(["Female", "Male"], patients, p=[0.54, 0.46])
    races = words("Caucasian AfricanAmerican ? Hispanic Other Asian")
    codes = [f"{k}" if k % 29 else f"V{k % 90:02d}" for k in range(140, 840)]
    codes[::13] = [f"250.{k % 100}" for k in range(len(codes[::13]))]
    shares = 1.0 / np.arange(1, len(codes) + 1) ** 1.05
    linked = np.where(
        draw.random(stays) < 0.3, (age[whose] * 3 + (gender[whose] == "Male")) % 17, 0
    )
    rank = (draw.choice(len(codes), stays, p=shares / shares.sum()) + linked) % len(codes)
    diagnosis = draw.permutation(codes)[rank]
    columns: dict[str, Any] = {
        "encounter_id": 10_000 + np.cumsum(draw.integers(1, 90, stays)),
        "patient_nbr": (100_000 + 97 * draw.permutation(patients * 9)[:patients])[whose],
        "race": draw.choice(races, patients, p=[0.74, 0.19, 0.02, 0.02, 0.02, 0.01])[whose],
        "gender": gender[whose],
        "age": np.array([f"[{10 * k}-{10 * k + 10})" for k in age])[whose],
        "weight": np.where(draw.random(stays) < 0.97, "?", "[75-100)"),
        "diag_1": diagnosis,
        "diag_2": draw.permutation(diagnosis),
        "diag_3": draw.permutation(diagnosis),
    }
    for name, (values, chances) in STAY.items():
        columns[name] = draw.choice(words(values), stays, p=chances)
    for name, most in zip(words(NUMBERS)[::2], words(NUMBERS)[1::2], strict=True):
        columns[name] = 1 + draw.binomial(int(most) - 1, 0.3, stays)
    for name in words(DRUGS):
        columns[name] = draw.choice(words("No Steady Up Down"), stays, p=[0.9, 0.08, 0.01, 0.01])
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return path


def census_file(path: Path, people: int = 20000, seed: int = 2) -> Path:
    """A census of 42 columns without names: blanks before values, 'Not in universe' for half."""
    draw = np.random.default_rng(seed)

    def some(text: str, *shares: float) -> Any:
        return draw.choice(words(text), people, p=shares)

    age = np.clip(draw.gamma(3, 13, people).astype(int), 0, 90)
    sex = some("Female; Male", 0.5, 0.5)
    works = (age > 16) & (draw.random(people) < 0.75)
    classes = some(
        "Private; Local government; Self-employed; Federal government", 0.72, 0.12, 0.12, 0.04
    )
    education = some(
        "High school graduate; Some college; Bachelors degree; Masters degree; 10th grade; 7th and "
        "8th grade", 0.35, 0.22, 0.2, 0.08, 0.1, 0.05,
    )  # fmt: skip
    jobs = np.array(words(
        "Adm support; Prof specialty; Executive admin; Other service; Sales; Precision production; "
        "Machine operators; Transportation; Handlers; Farming; Protective services; Technicians"
    ))  # fmt: skip
    linked = 3 * (sex == "Male") + (education == "Bachelors degree")
    married = some(
        "Never married; Married-civilian spouse present; Divorced; Widowed", 0.25, 0.55, 0.12, 0.08
    )
    columns = [
        age,
        np.where(works, classes, "Not in universe"),
        draw.integers(0, 52, people),
        draw.integers(0, 47, people),
        np.where(age > 16, education, "Children"),
        np.where(works, draw.integers(0, 2000, people), 0),
        some("Not in universe; High school; College or university", 0.94, 0.04, 0.02),
        np.where(age < 18, "Never married", married),
        some("Manufacturing; Retail trade; Education; Construction; Not in universe or children",
             0.1, 0.2, 0.15, 0.05, 0.5),
        np.where(works, jobs[(draw.integers(0, 12, people) + linked) % 12], "Not in universe"),
        some("White; Black; Asian or Pacific Islander; Other", 0.84, 0.1, 0.03, 0.03),
        some("All other; Mexican-American; Puerto Rican", 0.87, 0.09, 0.04),
        sex,
    ]  # fmt: skip
    for k in range(13, 41):
        if k in (21, 25, 26, 28):
            columns.append(some("?; Nonmover; MSA to MSA", 0.5, 0.42, 0.08))
        elif k in (16, 17, 18, 24):
            columns.append(np.where(draw.random(people) < 0.95, 0, draw.integers(1, 9999, people)))
        elif k in (31, 32, 33):
            countries = "United-States; Mexico; ?; Germany; Cuba"
            columns.append(some(countries, 0.85, 0.06, 0.04, 0.03, 0.02))
        else:
            files = "Not in universe; Nonfiler; Joint both under 65; Householder"
            columns.append(some(files, 0.5, 0.2, 0.2, 0.1))
    columns.append(np.where((age > 30) & (draw.random(people) < 0.12), "50000+.", "- 50000."))
    with path.open("w") as file:
        for row in zip(*(column.tolist() for column in columns), strict=True):
            file.write(", ".join(map(str, row)) + "\n")
    return path
