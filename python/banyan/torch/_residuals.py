"""What a reducer keeps, as a part of a state that is saved rank by rank."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

import banyan

State = Mapping[str, Any]
States = Union[State, Sequence[State]]


def saved(reducer: banyan.Reducer, comm: banyan.Comm) -> dict[str, Any]:
    """Of this rank, between steps."""
    return {'rank': comm.rank, 'ranks': comm.size, 'residuals': reducer.save()}


def states_of(given: States, comm: banyan.Comm) -> list[State]:
    """Those of the former ranks that are this rank's now: its own, or of a list of all of them r, r + size and so on."""
    states = [given] if isinstance(given, Mapping) else list(given)
    for state in states:
        if not {'rank', 'ranks', 'residuals'} <= set(state):
            raise ValueError("a state has no 'rank', 'ranks' and 'residuals'; valid: what state_dict() gave")
    former = states[0]['ranks'] if states else 0
    if len(states) == 1 and former == comm.size != 1:
        if states[0]['rank'] != comm.rank:
            raise ValueError(f'the state is of rank {states[0]["rank"]}, and this is rank {comm.rank}; valid: its own, or a '
                             'list of all')
        return states
    by_rank = {state['rank']: state for state in states}
    if sorted(by_rank) != list(range(former)) or any(state['ranks'] != former for state in states):
        raise ValueError(f'there are states of ranks {sorted(by_rank)}, of {former} former ranks; valid where there are '
                         f'{comm.size} ranks now: a list of those of all former ranks')
    return [by_rank[rank] for rank in range(comm.rank, former, comm.size)]


def load(reducer: banyan.Reducer, states: list[State]) -> None:
    """Before the first step."""
    reducer.load(*(state['residuals'] for state in states))
