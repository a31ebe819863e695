"""Studies: plans of experiments (arms and repeats), run one after another, and what came of them."""

from genepool.study.outcome import Outcome, read_outcome
from genepool.study.plan import Point, StudyPlan, read_plan, shipped_plans
from genepool.study.run import run_study

__all__ = ["Outcome", "Point", "StudyPlan", "read_outcome", "read_plan", "run_study", "shipped_plans"]
