"""An independent formulation: one variable an arc, solved by GLPK.

Every arc may drop, not only the drop locations, and nothing is substituted: the
program is read off the network's description and shares no code with the planners.
"""

from __future__ import annotations

from collections.abc import Mapping

import swiglpk as glpk

from headgate.network import Arc, Network, Statistics


def best_score(
    network: Network, rates: Mapping[str, float], *, guarantees: bool = False
) -> float | None:
    """The largest total weighted throughput, or None where guarantees cannot be met."""
    statistics = Statistics()
    arcs = list(network.arcs)
    column = {arc: index + 1 for index, arc in enumerate(arcs)}
    problem = glpk.glp_create_prob()
    glpk.glp_set_obj_dir(problem, glpk.GLP_MAX)
    glpk.glp_add_cols(problem, len(arcs))
    for arc in arcs:
        if arc.source in network.stream_by_name:
            rate = rates[arc.source]
            kind = glpk.GLP_DB if rate > 0 else glpk.GLP_FX
            glpk.glp_set_col_bnds(problem, column[arc], kind, 0.0, rate)
        else:
            glpk.glp_set_col_bnds(problem, column[arc], glpk.GLP_LO, 0.0, 0.0)
    for query in network.queries:
        arc = Arc(query.input, query.name)
        glpk.glp_set_obj_coef(problem, column[arc], query.weight)
    for operator in network.operators:
        gains = statistics.gains(operator)
        terms = {
            column[Arc(source, operator.name)]: -gain
            for source, gain in zip(operator.inputs, gains, strict=True)
        }
        for arc in network.arcs_from[operator.name]:
            _row(problem, {**terms, column[arc]: 1.0}, upper=0.0)
    for node in network.nodes:
        terms = {
            column[Arc(source, operator.name)]: statistics.cost_seconds(operator)
            for operator in network.operators
            if operator.node == node.name
            for source in operator.inputs
        }
        _row(problem, terms, upper=node.capacity)
    for link in network.links:
        terms = {
            column[arc]: network.operator_by_name[arc.source].tuple_bytes or 0.0
            for arc in arcs
            if network.node_of(arc.source) == link.source
            and network.node_of(arc.target) == link.target
        }
        _row(problem, terms, upper=link.bandwidth_bytes_per_second)
    if guarantees:
        full = unshed_rates(network, rates)
        for query in network.queries:
            least = query.keep_at_least * full[query.name]
            if least > 0:
                _row(problem, {column[Arc(query.input, query.name)]: 1.0}, lower=least)
    parameters = glpk.glp_smcp()
    glpk.glp_init_smcp(parameters)
    parameters.msg_lev = glpk.GLP_MSG_OFF
    glpk.glp_simplex(problem, parameters)
    status = glpk.glp_get_status(problem)
    score = glpk.glp_get_obj_val(problem)
    glpk.glp_delete_prob(problem)
    return score if status == glpk.GLP_OPT else None


def unshed_rates(network: Network, rates: Mapping[str, float]) -> dict[str, float]:
    """The rate of every query when nothing is dropped."""
    statistics = Statistics()
    out = dict(rates)
    for operator in network.operators_in_order:
        gains = statistics.gains(operator)
        out[operator.name] = sum(
            out[source] * gain for source, gain in zip(operator.inputs, gains, strict=True)
        )
    return {query.name: out[query.input] for query in network.queries}


def _row(
    problem: object, terms: Mapping[int, float], *, upper: float | None = None, lower: float = 0.0
) -> None:
    used = {index: value for index, value in terms.items() if value != 0.0}
    row = glpk.glp_add_rows(problem, 1)
    if upper is None:
        glpk.glp_set_row_bnds(problem, row, glpk.GLP_LO, lower, 0.0)
    else:
        glpk.glp_set_row_bnds(problem, row, glpk.GLP_UP, 0.0, upper)
    indices, values = glpk.intArray(len(used) + 1), glpk.doubleArray(len(used) + 1)
    for position, (index, value) in enumerate(used.items(), start=1):
        indices[position], values[position] = index, value
    glpk.glp_set_mat_row(problem, row, len(used), indices, values)
