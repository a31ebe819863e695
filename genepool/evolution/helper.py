"""Helping with a training that another worker shares, and waiting for one to help with."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from genepool.errors import (
    ConcurrencyError,
    DataError,
    InvalidDNAError,
    MissingLayerError,
    SettingsError,
    TrainingError,
)
from genepool.evaluation import Evaluators, PeerEvaluator, TrainingRequest
from genepool.evolution.peers import FAULTS, Invitation, Membership, NoPlace
from genepool.evolution.training import dna_of, training_budget_of
from genepool.population import Individual, Population, State

log = logging.getLogger(__name__)

INVITATION_WAIT = 5.0  # seconds that a worker which does not begin waits for an invitation before it begins after all
LOST_SHARE, LOST_WAIT = 1 / 3, 900.0
"""A leader that cannot be reached may have died, and its training be taken over at the end of its lease. Other workers
begin another one only after this share of the time that is left, at most this many seconds."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a worker joins the same training again; doubled each time."""
STEADY = 30.0  # seconds of help after which the pause is the first one again


@dataclass
class _Known:
    """What earlier attempts to join one training have shown."""

    attempts: int = 0
    next_at: float = 0.0
    lost_since: float | None = None


class _Offer(NamedTuple):
    individual: Individual
    invitation: Invitation


class Helper:
    """Takes part in trainings that other workers share. `tick` is called about twice per second meanwhile, and may end
    the help by an exception."""

    def __init__(
        self,
        population: Population,
        evaluators: Evaluators,
        *,
        number: int,
        clock: Callable[[], float],
        tick: Callable[[], None],
    ) -> None:
        self._population, self._evaluators = population, evaluators
        self._number, self._clock, self._tick = number, clock, tick
        self._known: dict[bytes, _Known] = {}
        self._idle_since: float | None = None

    def helped(self) -> bool:
        """Help with one training until it ends; return whether there was one."""
        offers = self._offers()
        self._known = {offer.invitation.token: self._known.get(offer.invitation.token, _Known()) for offer in offers}
        for offer in offers:
            known = self._known[offer.invitation.token]
            if self._clock() >= known.next_at and self._joined(offer, known):
                self._idle_since = None
                return True
        return False

    def may_lead(self, left: float, group: int) -> bool:
        """Whether to begin another training, `left` seconds before the end: one worker of each group of this size does
        so at once, the others only if there is no invitation for some time."""
        now = self._clock()
        lost = [known.lost_since for known in self._known.values() if known.lost_since is not None]
        if lost and now - min(lost) < min(LOST_WAIT, LOST_SHARE * left):
            return False
        if self._idle_since is None:
            self._idle_since = now
        if self._number % group and now - self._idle_since < INVITATION_WAIT:
            return False
        self._idle_since = None
        return True

    def _offers(self) -> list[_Offer]:
        found = []
        for individual in self._population.snapshot():
            if individual.state is not State.TRAINING or individual.owner == self._population.who:
                continue
            invitation = _decoded(self._population.invitation(individual))
            if invitation and invitation.individual == individual.id and invitation.is_for_here:
                found.append(_Offer(individual, invitation))
        return found

    def _joined(self, offer: _Offer, known: _Known) -> bool:
        """Help until the training ends or the connection is lost; return whether there was a place."""
        began = self._clock()
        known.next_at = began + min(LONGEST_PAUSE, FIRST_PAUSE * 2**known.attempts)
        known.attempts += 1
        try:
            evaluator, request = self._prepared(offer.individual)
            membership = Membership(offer.invitation, self._tick)
        except NoPlace:
            known.lost_since = None
            return False
        except (ConcurrencyError, SettingsError, MissingLayerError, InvalidDNAError) as error:
            log.debug("this worker cannot take part in the training of %s: %s", offer.individual.id, error)
            return False
        except FAULTS:
            known.lost_since = began if known.lost_since is None else known.lost_since
            return False
        known.lost_since = None
        try:
            evaluator.help(request, membership)
        except OSError as error:  # the usual end: the training is over, or this worker was too slow
            log.debug("the connection to the leader of %s ended: %s", offer.individual.id, error)
        except (TrainingError, DataError, msgspec.MsgspecError) as error:
            log.warning("This worker takes no part in the training of %s: %s", offer.individual.id, error)
        finally:
            membership.close()
        if self._clock() - began > STEADY:
            known.attempts = 0
        known.next_at = self._clock() + min(LONGEST_PAUSE, FIRST_PAUSE * 2**known.attempts)
        return True

    def _prepared(self, individual: Individual) -> tuple[PeerEvaluator, TrainingRequest]:
        birth = self._population.read_birth(individual)
        evaluator, dna = self._evaluators(birth.settings_version), dna_of(birth)
        dna.require_kinds()
        if not isinstance(evaluator, PeerEvaluator):
            raise SettingsError("The evaluator cannot share a training.")
        return evaluator, TrainingRequest(dna, birth.training_seed, budget=training_budget_of(birth))


def _decoded(invitation: bytes | None) -> Invitation | None:
    """Return an invitation; None if there is none, or if it is being written."""
    try:
        return msgspec.json.decode(invitation, type=Invitation) if invitation else None
    except msgspec.MsgspecError:
        return None
