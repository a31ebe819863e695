"""Studies: plans of experiments (arms and repeats), run one after another, and what came of them."""

from genepool.study.outcome import Outcome, read_outcome
from genepool.study.plan import Point, StudyPlan, read_plan, shipped_plans
from genepool.study.run import begin_study, path_of, read_study, run_study
from genepool.study.statistics import Line, findings, lines

__all__ = [
    "Line",
    "Outcome",
    "Point",
    "StudyPlan",
    "begin_study",
    "findings",
    "lines",
    "path_of",
    "read_outcome",
    "read_plan",
    "read_study",
    "run_study",
    "shipped_plans",
]
