"""The evolutionary algorithm: what a worker does with a population. No torch here.

worker           the endless loop of steps, as in the paper, and the rules in force
selection        drawing a pair and comparing it
set_point        whether a step kills, reproduces or both
reproduction     births: first individuals, children of one or two parents, copies
child_limits     which children may be born
training         one training as a worker runs it: weights in, checkpoints, result stored
peers            the connections between the workers that share one training
helper           helping with a training that another worker shares
training_budget  how much of the experiment's budget one training gets
budget           when an experiment is over
departures       orphans, the reset of all weights, and the last part of the budget, for the best network alone
escape           the alarm, and interventions against local optima
"""

from genepool.evolution.budget import Budget, BudgetUse, Spending
from genepool.evolution.child_limits import ChildLimits, child_limits_for
from genepool.evolution.departures import FinalPhase
from genepool.evolution.escape import Escape, Intervention
from genepool.evolution.reproduction import UNCHANGED, Breeding, Founder, Reproduction, mutated, recombined
from genepool.evolution.selection import SELECTIONS, Pair, tournament
from genepool.evolution.set_point import SET_POINTS, Decision, damped
from genepool.evolution.training import Job, Sharing, Surroundings, dna_of, training_budget_of
from genepool.evolution.training_budget import TrainingBudgetRules
from genepool.evolution.worker import Founders, Rules, Worker

__all__ = [
    "Worker", "Surroundings", "Sharing", "Job", "Rules", "Founders", "SELECTIONS", "Pair", "tournament", "SET_POINTS",
    "Decision", "damped", "Breeding", "Founder", "Reproduction", "UNCHANGED", "mutated", "recombined", "dna_of",
    "ChildLimits", "child_limits_for", "TrainingBudgetRules", "training_budget_of", "FinalPhase", "Escape",
    "Intervention", "Budget", "BudgetUse", "Spending",
]  # fmt: skip
