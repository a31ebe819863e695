"""Studies: plans of experiments (arms and repeats), and their outcomes.

plan         a TOML file with arms, repeats and scales
run          a study in a folder: its plan and its outcomes; which experiments a driver serves
serve        one experiment, served by a driver
lease        the drivers of a study, and which of them leads an experiment
records      the individuals that set a validation record
estimate     what a plan would take
outcome      the result of one experiment
statistics   what is computed from the outcomes
report/      HTML and Markdown
plots/       figures, with matplotlib
"""

from genepool.study.estimate import ArmEstimate, Estimate, estimate_study
from genepool.study.outcome import Outcome, known_test_accuracies, read_outcome
from genepool.study.plan import Point, StudyPlan, narrowed, read_plan, shipped_plans
from genepool.study.run import PLAN, StudyProgress, begin_study, path_of, read_study, run_study
from genepool.study.serve import StudyRun, wanted_workers
from genepool.study.statistics import Line, description, findings, lines

__all__ = [
    "PLAN", "StudyPlan", "Point", "read_plan", "shipped_plans", "narrowed",
    "StudyRun", "StudyProgress", "wanted_workers", "begin_study", "run_study", "read_study", "path_of",
    "Outcome", "read_outcome", "known_test_accuracies", "Line", "lines", "description", "findings",
    "ArmEstimate", "Estimate", "estimate_study",
]  # fmt: skip
