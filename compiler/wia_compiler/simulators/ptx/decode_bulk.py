"""Steps of bulk copies, and of the groups of those that go to device memory."""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.bulk_plan import bulk_plan
from wia_compiler.simulators.ptx.machine import Machine, Step
from wia_compiler.simulators.ptx.mbarrier import Misuse
from wia_compiler.simulators.ptx.operands import Scope, address_reader, reader
from wia_compiler.simulators.ptx.syntax import Immediate
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm


def decode_bulk(form: Form, number: int, scope: Scope) -> Step:
    """``cp.async.bulk``, ``cp.async.bulk.tensor``, their reductions, prefetches and groups."""
    flags = form.flags
    if "commit_group" in flags:
        return _commit
    if "wait_group" in flags:
        return _decode_wait(form)
    instruction, plan = form.instruction, bulk_plan(form, number)
    reads = [
        address_reader(operand, scope) if type is None else reader(operand, type, scope)
        for operand, type in zip(plan.operands, plan.types, strict=True)
    ]

    def step(machine: Machine) -> None:
        threads = machine.threads
        columns = [np.broadcast_to(read(threads), (threads.count,)) for read in reads]
        for lane in np.flatnonzero(threads.mask):
            values = [int(column[lane]) for column in columns]
            try:
                plan.issue(machine.bulk, int(threads.block_of[lane]), int(lane), values)
            except Misuse as misuse:
                machine.fault(
                    instruction, f"{misuse}, in {machine.thread_name(int(lane))}", misuse.hint
                )

    return step


def _commit(machine: Machine) -> None:
    for lane in np.flatnonzero(machine.threads.mask):
        machine.bulk.groups.commit(int(lane))


def groups_left(form: Form) -> int:
    """The number of ``wait_group``: how many of the newest groups may be left."""
    (operand,) = form.instruction.operands
    if not isinstance(operand, Immediate):
        raise UnknownForm(f"{form.instruction.name} of a computed number")
    return int(operand.value)


def _decode_wait(form: Form) -> Step:
    left, reads_only = groups_left(form), "read" in form.flags

    def step(machine: Machine) -> None:
        for lane in np.flatnonzero(machine.threads.mask):
            machine.bulk.groups.wait(int(lane), left, reads_only=reads_only)

    return step
