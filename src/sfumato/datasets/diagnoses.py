"""Several hundred readable diagnoses, made from chapters: leading ones, then site × condition.

The codes look like ICD-10 (a letter and two digits) and are not: numbers are handed out in order.
"""

from __future__ import annotations

from typing import NamedTuple


class Chapter(NamedTuple):
    """One chapter: its share of all stays, whom it befalls, and the diagnoses in it.

    `by_age` has one weight for each age band of the hospital model (0, 1–14, 15–29, 30–44,
    45–59, 60–74, 75+); 0 means never. `women` is the weight of women against men.
    """

    letter: str
    share: float
    by_age: tuple[float, ...]
    women: float
    leading: tuple[str, ...]
    sites: tuple[str, ...]
    conditions: tuple[str, ...]


class Diagnosis(NamedTuple):
    """A value of the diagnosis column, with its chapter and its overall share."""

    name: str
    chapter: Chapter
    share: float


EVEN = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
OLD = (0.1, 0.1, 0.3, 0.8, 2.0, 4.0, 5.0)
YOUNG = (3.0, 4.0, 2.0, 1.0, 0.7, 0.5, 0.5)
ADULT = (0.02, 0.3, 1.5, 2.0, 1.8, 1.0, 0.8)

WOMEN_ONLY = ("ovarian", "uterine", "vaginal")
MEN_ONLY = ("prostate", "testicular")
# words that mean "at once": such stays begin as emergencies, the others are mostly planned
SUDDEN = (
    *("acute", "bleeding", "crisis", "fracture", "rupture", "obstruction", "perforation", "burn"),
    *("infarction", "haemorrhage", "poisoning", "wound", "sepsis", "seizures", "pneumonia"),
    *("failure", "attack", "collapse", "dislocation", "infection", "embolism", "stroke"),
)

_BREADTH = ("infection", "ulcer", "injury", "disorder")

CHAPTERS = (
    Chapter(
        "A", 0.035, (2, 2, 1, 1, 1, 1.3, 1.6), 1.0,
        ("sepsis", "viral gastroenteritis", "erysipelas"),
        ("intestinal", "skin", "blood-borne", "tick-borne", "food-borne"),
        ("bacterial infection", "viral infection", "parasitic infection", "fungal infection"),
    ),
    Chapter(
        "C", 0.085, OLD, 1.0,
        ("breast carcinoma", "lung carcinoma", "colon carcinoma"),
        ("prostate", "ovarian", "gastric", "bladder", "pancreatic"),
        ("carcinoma", "carcinoma, metastatic", "carcinoma, recurrent", "carcinoma in situ"),
    ),
    Chapter(
        "D", 0.025, (0.8, 0.8, 1, 1.2, 1.2, 1.6, 2), 1.3,
        ("iron-deficiency anaemia", "benign skin tumour", "uterine fibroid"),
        ("red-cell", "white-cell", "platelet", "clotting", "bone-marrow"),
        ("deficiency", "excess", "crisis", "disorder"),
    ),
    Chapter(
        "E", 0.045, (0.2, 0.5, 0.7, 1.2, 1.8, 2.0, 2.0), 1.1,
        ("type 2 diabetes", "obesity", "dehydration"),
        ("thyroid", "adrenal", "pituitary", "parathyroid", "lipid"),
        ("deficiency", "overactivity", "crisis", "disorder"),
    ),
    Chapter(
        "F", 0.045, (0.01, 0.4, 2, 2, 1.6, 0.8, 0.6), 1.0,
        ("alcohol dependence", "depression", "schizophrenia"),
        ("anxiety", "eating", "sleep", "mood", "personality"),
        ("disorder, mild", "disorder, severe", "disorder, recurrent", "crisis"),
    ),
    Chapter(
        "G", 0.035, (0.5, 0.8, 0.8, 1, 1.3, 1.6, 1.6), 1.1,
        ("epileptic seizures", "migraine attack", "sleep apnoea"),
        ("facial", "median", "spinal", "autonomic", "motor"),
        ("nerve compression", "nerve inflammation", "nerve degeneration", "nerve injury"),
    ),
    Chapter(
        "H", 0.030, (0.4, 1.2, 0.5, 0.6, 1, 2.2, 2.4), 1.1,
        ("cataract", "middle-ear infection", "glaucoma"),
        ("corneal", "retinal", "eyelid", "inner-ear", "optic-nerve"),
        ("inflammation", "degeneration", "infection", "injury"),
    ),
    Chapter(
        "I", 0.140, (0.05, 0.05, 0.2, 0.8, 2.4, 4.5, 5.5), 0.85,
        ("heart failure", "atrial fibrillation", "myocardial infarction", "stroke"),
        ("coronary", "aortic", "mitral", "cerebral", "venous"),
        ("stenosis", "occlusion", "rupture", "inflammation"),
    ),
    Chapter(
        "J", 0.075, (4, 3.5, 1, 0.8, 1, 1.8, 2.6), 0.9,
        ("pneumonia", "acute bronchitis", "asthma attack", "chronic obstructive lung disease"),
        ("tonsil", "sinus", "laryngeal", "pleural", "bronchial"),
        ("infection", "chronic inflammation", "obstruction", "swelling"),
    ),
    Chapter(
        "K", 0.100, (0.5, 0.9, 1.2, 1.4, 1.5, 1.5, 1.5), 0.95,
        ("gallstones", "inguinal hernia", "acute appendicitis", "acute gastritis"),
        ("gastric", "duodenal", "colonic", "rectal", "hepatic"),
        ("ulcer", "bleeding", "perforation", "polyp"),
    ),
    Chapter(
        "L", 0.018, (1.5, 1.2, 1.2, 1, 1, 1, 1.1), 0.9,
        ("cellulitis", "abscess of the skin", "psoriasis"),
        ("scalp", "facial", "hand", "leg", "nail"),
        _BREADTH,
    ),
    Chapter(
        "M", 0.080, (0.02, 0.3, 0.7, 1.2, 2, 2.3, 1.6), 1.2,
        ("knee arthrosis", "hip arthrosis", "lumbar disc disorder", "back pain"),
        ("shoulder", "ankle", "wrist", "elbow", "cervical"),
        ("arthritis", "tendon inflammation", "stiffness", "instability"),
    ),
    Chapter(
        "N", 0.050, (0.6, 0.5, 1.1, 1.3, 1.3, 1.4, 1.5), 1.2,
        ("kidney stone", "urinary tract infection", "acute kidney failure"),
        ("renal", "bladder", "prostate", "ovarian", "testicular"),
        ("inflammation", "cyst", "obstruction", "bleeding"),
    ),
    Chapter(
        "O", 0.075, (0, 0, 1, 1, 0, 0, 0), 0.0,
        ("spontaneous delivery", "delivery by caesarean section", "prolonged labour"),
        ("early-pregnancy", "late-pregnancy", "placental", "postpartum", "amniotic"),
        ("bleeding", "infection", "hypertension", "disorder"),
    ),
    Chapter(
        "P", 0.045, (1, 0, 0, 0, 0, 0, 0), 1.0,
        ("healthy live-born infant", "preterm infant", "neonatal jaundice"),
        ("neonatal respiratory", "neonatal cardiac", "neonatal feeding", "neonatal skin",
         "neonatal metabolic"),
        ("distress", "infection", "immaturity", "disorder"),
    ),
    Chapter(
        "Q", 0.012, (12, 3, 0.6, 0.4, 0.3, 0.1, 0.05), 0.9,
        ("septal defect of the heart", "hip dysplasia", "cleft lip"),
        ("renal", "cardiac", "intestinal", "spinal", "limb"),
        ("malformation, mild", "malformation, severe", "duplication", "absence"),
    ),
    Chapter(
        "R", 0.050, (1, 1.2, 1.1, 1, 1, 1, 1.3), 1.05,
        ("chest pain", "abdominal pain", "syncope and collapse", "fever"),
        ("unexplained", "recurrent", "postoperative", "nocturnal", "exertional"),
        ("dizziness", "headache", "breathlessness", "nausea"),
    ),
    Chapter(
        "S", 0.080, (0.2, 1.8, 1.6, 1, 1, 1.1, 2), 0.85,
        ("concussion", "hip fracture", "wrist fracture", "ankle fracture"),
        ("skull", "rib", "shoulder", "hand", "knee"),
        ("fracture", "dislocation", "open wound", "contusion"),
    ),
    Chapter(
        "T", 0.020, (0.4, 1.4, 1.4, 1, 1, 1, 1), 1.0,
        ("complication of a device", "allergic shock, acute", "frostbite"),
        ("alcohol", "painkiller", "sedative", "mushroom", "solvent"),
        ("poisoning, accidental", "poisoning, deliberate", "burn", "withdrawal"),
    ),
    Chapter(
        "Z", 0.040, (0.5, 0.5, 1, 1.2, 1.4, 1.6, 1.2), 1.0,
        ("chemotherapy session", "dialysis session", "follow-up after surgery"),
        ("cardiac", "orthopaedic", "renal", "pulmonary", "neurological"),
        ("rehabilitation", "observation", "device adjustment", "screening"),
    ),
)  # fmt: skip


def diagnoses() -> tuple[Diagnosis, ...]:
    """All diagnoses: the k-th of a chapter has a share proportional to 1/k within it.

    >>> listed = diagnoses()
    >>> len(listed), listed[0].name, listed[24].name
    (466, 'A00 sepsis', 'C04 lung carcinoma')
    """
    total = sum(chapter.share for chapter in CHAPTERS)
    listed: list[Diagnosis] = []
    for chapter in CHAPTERS:
        # conditions outside: the first rare ones differ in site before they differ in condition
        crossed = (f"{s} {c}" for c in chapter.conditions for s in chapter.sites)
        names = (*chapter.leading, *crossed)
        harmonic = sum(1 / rank for rank in range(1, len(names) + 1))
        listed += (
            Diagnosis(
                f"{chapter.letter}{4 * index:02d} {name}",
                chapter,
                chapter.share / total / (index + 1) / harmonic,
            )
            for index, name in enumerate(names)
        )
    return tuple(listed)
