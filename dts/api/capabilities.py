# SPDX-License-Identifier: Apache-2.0
"""Requirements of suites and cases; what is missing makes them SKIP with the reason."""
from collections.abc import Callable
from typing import TypeVar

from framework.testbed_model.capability import Capability, LinkTopology

T = TypeVar("T")

__all__ = ["Capability", "LinkTopology", "requires", "requires_link_topology"]


def requires(*capabilities: Capability) -> Callable[[T], T]:
    """On a class or a case: what the machine must be able to do."""
    def mark(thing: T) -> T:
        needs: frozenset[Capability] = getattr(thing, "_dts_needs", frozenset())
        setattr(thing, "_dts_needs", needs | set(capabilities))  # noqa: B010
        return thing
    return mark


def requires_link_topology(topology: LinkTopology) -> Callable[[T], T]:
    """On a class or a case: how many links port_topology must have; ONE_LINK unless told."""
    def mark(thing: T) -> T:
        setattr(thing, "_dts_topology", topology)  # noqa: B010
        return thing
    return mark
