"""Twins of two files as they come: hospital stays with repeats, a census without names."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np


def words(text: str) -> list[str]:
    """Values between semicolons, or between blanks."""
    return text.split("; " if ";" in text else None)


def hospital_file(path: Path, stays: int = 20000, seed: int = 1) -> Path:
    """Stays of patients, 50 columns: `?` where nothing is known, 700 ICD-like diagnosis codes."""
    draw = np.random.default_rng(seed)
    patients = int(stays * 0.7)
    whose = np.sort(
        np.concatenate([np.arange(patients), draw.integers(0, patients, stays - patients)])
    )
    draw.shuffle(whose)
    ids = 100_000 + 97 * draw.permutation(patients * 9)[:patients]
    age = np.clip(draw.normal(6.2, 1.7, patients).astype(int), 0, 9)
    race = draw.choice(
        ["Caucasian", "AfricanAmerican", "?", "Hispanic", "Other", "Asian"],
        patients,
        p=[0.74, 0.19, 0.02, 0.02, 0.02, 0.01],
    )
    gender = draw.choice(["Female", "Male"], patients, p=[0.54, 0.46])
    codes = np.array([f"{k}" if k % 29 else f"V{k % 90:02d}" for k in range(140, 840)])
    codes[::13] = [f"250.{k % 100}" for k in range(len(codes[::13]))]
    codes = np.array([f"{c}" for c in codes])
    weights = 1.0 / np.arange(1, len(codes) + 1) ** 1.05
    weights /= weights.sum()
    order = draw.permutation(len(codes))
    shift = (age[whose] * 3 + (gender[whose] == "Male")) % 17
    rank = (
        draw.choice(len(codes), stays, p=weights) + np.where(draw.random(stays) < 0.3, shift, 0)
    ) % len(codes)
    diagnosis = codes[order[rank]]
    specialty = draw.choice(
        words(
            "? InternalMedicine Emergency/Trauma Family/GeneralPractice Cardiology "
            "Surgery-General Nephrology Orthopedics Radiologist Psychiatry Pulmonology "
            "Urology"
        ),
        stays,
        p=[0.49, 0.14, 0.08, 0.07, 0.06, 0.04, 0.03, 0.03, 0.02, 0.02, 0.01, 0.01],
    )
    readmitted = draw.choice(["NO", ">30", "<30"], stays, p=[0.54, 0.35, 0.11])
    drugs = words(
        "metformin repaglinide nateglinide chlorpropamide glimepiride acetohexamide "
        "glipizide glyburide tolbutamide pioglitazone rosiglitazone acarbose miglitol "
        "troglitazone tolazamide examide citoglipton insulin glyburide-metformin "
        "glipizide-metformin glimepiride-pioglitazone metformin-rosiglitazone "
        "metformin-pioglitazone"
    )
    names = [
        *words(
            "encounter_id patient_nbr race gender age weight admission_type_id "
            "discharge_disposition_id admission_source_id time_in_hospital payer_code "
            "medical_specialty num_lab_procedures num_procedures num_medications "
            "number_outpatient number_emergency number_inpatient diag_1 diag_2 diag_3 "
            "number_diagnoses max_glu_serum A1Cresult"
        ),
        *drugs,
        *words("change diabetesMed readmitted"),
    ]
    numbers = {
        "admission_type_id": 8,
        "discharge_disposition_id": 28,
        "admission_source_id": 25,
        "time_in_hospital": 14,
        "num_lab_procedures": 110,
        "num_procedures": 7,
        "num_medications": 60,
        "number_outpatient": 20,
        "number_emergency": 20,
        "number_inpatient": 15,
        "number_diagnoses": 16,
    }
    columns = {
        "encounter_id": 10_000 + np.cumsum(draw.integers(1, 90, stays)),
        "patient_nbr": ids[whose],
        "race": race[whose],
        "gender": gender[whose],
        "age": np.array([f"[{10 * k}-{10 * k + 10})" for k in age])[whose],
        "weight": np.where(draw.random(stays) < 0.97, "?", "[75-100)"),
        "payer_code": draw.choice(
            ["?", "MC", "HM", "SP", "BC"], stays, p=[0.4, 0.32, 0.1, 0.1, 0.08]
        ),
        "medical_specialty": specialty,
        "diag_1": diagnosis,
        "diag_2": draw.permutation(diagnosis),
        "diag_3": draw.permutation(diagnosis),
        "max_glu_serum": draw.choice(
            ["None", "Norm", ">200", ">300"], stays, p=[0.94, 0.03, 0.02, 0.01]
        ),
        "A1Cresult": draw.choice(["None", ">8", "Norm", ">7"], stays, p=[0.83, 0.08, 0.05, 0.04]),
        "change": draw.choice(["No", "Ch"], stays),
        "diabetesMed": draw.choice(["Yes", "No"], stays, p=[0.77, 0.23]),
        "readmitted": readmitted,
    }
    for name, most in numbers.items():
        columns[name] = 1 + draw.binomial(most - 1, 0.3, stays)
    for k, name in enumerate(drugs):
        columns[name] = (
            np.full(stays, "No")
            if k in (15, 16)
            else draw.choice(["No", "Steady", "Up", "Down"], stays, p=[0.9, 0.08, 0.01, 0.01])
        )
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(zip(*(columns[name].tolist() for name in names), strict=True))
    return path


def census_file(path: Path, people: int = 20000, seed: int = 2) -> Path:
    """A census of 42 columns without names: blanks before values, 'Not in universe' for half."""
    draw = np.random.default_rng(seed)
    age = np.clip(draw.gamma(3, 13, people).astype(int), 0, 90)
    sex = draw.choice(["Female", "Male"], people)
    work = age > 16
    classes = np.where(
        work & (draw.random(people) < 0.75),
        draw.choice(
            ["Private", "Local government", "Self-employed", "Federal government"],
            people,
            p=[0.72, 0.12, 0.12, 0.04],
        ),
        "Not in universe",
    )
    education = np.where(
        work,
        draw.choice(
            words(
                "High school graduate; Some college; Bachelors degree; Masters degree; 10th "
                "grade; 7th and 8th grade"
            ),
            people,
            p=[0.35, 0.22, 0.2, 0.08, 0.1, 0.05],
        ),
        "Children",
    )
    jobs = np.array(
        words(
            "Adm support; Prof specialty; Executive admin; Other service; Sales; Precision "
            "production; Machine operators; Transportation; Handlers; Farming; Protective "
            "services; Technicians"
        )
    )
    occupation = np.where(
        classes == "Not in universe",
        "Not in universe",
        jobs[
            (draw.integers(0, 12, people) + 3 * (sex == "Male") + (education == "Bachelors degree"))
            % 12
        ],
    )
    income = np.where((age > 30) & (draw.random(people) < 0.12), "50000+.", "- 50000.")
    columns = [
        age,
        classes,
        draw.integers(0, 52, people),
        draw.integers(0, 47, people),
        education,
        np.where(classes == "Not in universe", 0, draw.integers(0, 2000, people)),
        draw.choice(
            ["Not in universe", "High school", "College or university"],
            people,
            p=[0.94, 0.04, 0.02],
        ),
        np.where(
            age < 18,
            "Never married",
            draw.choice(
                ["Never married", "Married-civilian spouse present", "Divorced", "Widowed"],
                people,
                p=[0.25, 0.55, 0.12, 0.08],
            ),
        ),
        draw.choice(
            words(
                "Manufacturing; Retail trade; Education; Construction; Not in universe or children"
            ),
            people,
            p=[0.1, 0.2, 0.15, 0.05, 0.5],
        ),
        occupation,
        draw.choice(
            ["White", "Black", "Asian or Pacific Islander", "Other"],
            people,
            p=[0.84, 0.1, 0.03, 0.03],
        ),
        draw.choice(
            ["All other", "Mexican-American", "Puerto Rican"], people, p=[0.87, 0.09, 0.04]
        ),
        sex,
    ]
    for k in range(13, 41):
        if k in (21, 25, 26, 28):
            columns.append(
                draw.choice(["?", "Nonmover", "MSA to MSA"], people, p=[0.5, 0.42, 0.08])
            )
        elif k in (16, 17, 18, 24):
            columns.append(np.where(draw.random(people) < 0.95, 0, draw.integers(1, 9999, people)))
        elif k in (31, 32, 33):
            columns.append(
                draw.choice(
                    ["United-States", "Mexico", "?", "Germany", "Cuba"],
                    people,
                    p=[0.85, 0.06, 0.04, 0.03, 0.02],
                )
            )
        else:
            columns.append(
                draw.choice(
                    ["Not in universe", "Nonfiler", "Joint both under 65", "Householder"],
                    people,
                    p=[0.5, 0.2, 0.2, 0.1],
                )
            )
    columns.append(income)
    with path.open("w") as file:
        for row in zip(*(column.tolist() for column in columns), strict=True):
            file.write(", ".join(map(str, row)) + "\n")
    return path
