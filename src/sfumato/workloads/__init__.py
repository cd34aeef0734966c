"""Many count questions at once: made, and answered by bitmaps in numpy."""

from sfumato.workloads.answers import WorkloadAnswers, answers_of_shares, release_answers
from sfumato.workloads.coded_table import CodedTable, WorkloadColumn, people_of, true_counts
from sfumato.workloads.generate import KINDS, SizeClass, generate_workload, size_classes
from sfumato.workloads.questions import Between, Condition, CountQuestion, OneOf, Workload

__all__ = [
    "KINDS",
    "Between",
    "CodedTable",
    "Condition",
    "CountQuestion",
    "OneOf",
    "SizeClass",
    "Workload",
    "WorkloadAnswers",
    "WorkloadColumn",
    "answers_of_shares",
    "generate_workload",
    "people_of",
    "release_answers",
    "size_classes",
    "true_counts",
]
