# SPDX-License-Identifier: Apache-2.0
"""A real client of a Mooncake store, and what its numbers mean."""

import logging
import threading
from collections.abc import Sequence
from typing import Any

log = logging.getLogger("store")

NO_SPACE = -200
NOT_FOUND = -704
LEASE_EXPIRED = -707
CHECKSUM = -801
RPC_FAILED = -900
RETRY_S = 1.0


class Unavailable(Exception):
    """The store's master cannot be reached now."""


class Stopped(Exception):
    """The program ends."""


def text(key: bytes) -> str | bytes:
    """A key as the binding takes it: it is a string there, of any bytes."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


class Store:
    """Connects in the background of the first call and again when asked to. Any thread."""

    def __init__(self, options: dict[str, Any], stop: threading.Event) -> None:
        self._options, self._stop = options, stop
        self._lock = threading.Lock()
        self._store: Any = None
        self._buffers: list[tuple[int, int]] = []
        self._config: Any = None

    def register(self, buffers: Sequence[tuple[int, int]]) -> None:
        """Memory that get() and put() may use, instead of what was registered before."""
        with self._lock:
            for base, _ in self._buffers:
                if self._store is not None:
                    self._store.unregister_buffer(base)
            self._buffers = list(buffers)
            if self._store is not None:
                self._register()

    def _register(self) -> None:
        for base, length in self._buffers:
            rc = self._store.register_buffer(base, length)
            if rc != 0:
                raise Unavailable(f"register_buffer says {rc}")

    def _connect(self) -> Any:
        # Only here, so that frames and pool can be used without the wheel.
        from mooncake.store import (  # noqa: PLC0415
            MooncakeDistributedStore,
            ReplicateConfig,
            SoftPinAction,
        )

        o = self._options
        store = MooncakeDistributedStore()
        rc = store.setup(o["host"], o["metadata"], o["segment"], o["buffer"], o["protocol"],
                         o["device"], o["master"], tenant_id=o["tenant"])
        if rc != 0:
            raise Unavailable(f"setup says {rc}")
        self._config = ReplicateConfig()
        self._config.replica_num = o["replicas"]
        if o["segment"]:  # what lies in this process is copied there without a socket between
            self._config.preferred_segments = [store.get_hostname()]
        if o["soft_pin_ms"]:
            self._config.soft_pin_action = SoftPinAction.ENABLE
            self._config.soft_pin_ttl_ms = o["soft_pin_ms"]
        return store

    def _get(self) -> Any:
        with self._lock:
            if self._store is None:
                store = self._connect()
                self._store = store
                try:
                    self._register()
                except Unavailable:
                    self._store = None
                    raise
                log.info("connected master=%s", self._options["master"])
            return self._store

    def pause(self, seconds: float = RETRY_S) -> None:
        """Wait before another attempt."""
        if self._stop.wait(seconds):
            raise Stopped

    def exist(self, keys: Sequence[bytes]) -> list[bool]:
        """Which are there; grants them a read lease."""
        answer = self._get().batch_is_exist([text(k) for k in keys])
        if any(a < 0 for a in answer):
            raise Unavailable(f"batch_is_exist says {min(answer)}")
        return [a == 1 for a in answer]

    def describe(self, keys: Sequence[bytes]) -> dict[bytes, tuple[int, Any]]:
        """Size and place of each that is there; renews the lease."""
        found = self._get().batch_get_replica_desc([text(k) for k in keys])
        out = {}
        for key in keys:
            place = self._place(found.get(text(key), []))
            if place is not None:
                out[key] = place
        return out

    @staticmethod
    def _place(replicas: Sequence[Any]) -> tuple[int, Any] | None:
        places = []
        for r in replicas:
            if "COMPLETE" not in str(r.status) or not r.is_memory_replica():
                continue
            b = r.get_memory_descriptor().buffer_descriptor
            places.append((b.size, (b.transport_endpoint, b.buffer_address)))
        return places[0] if places else None

    def size(self, key: bytes) -> int:
        """Of one that is on no memory now; negative: an error of the store."""
        return int(self._get().get_size(text(key)))

    def get(self, keys: Sequence[bytes], addresses: Sequence[int],
            sizes: Sequence[int]) -> list[int]:
        """Read into registered memory: lengths, or errors."""
        return list(self._get().batch_get_into([text(k) for k in keys], list(addresses),
                                               list(sizes)))

    def put(self, keys: Sequence[bytes], addresses: Sequence[int],
            sizes: Sequence[int]) -> list[int]:
        """PutStart, bytes and PutEnd of each: 0, or errors. What is there already stays."""
        return list(self._get().batch_put_from([text(k) for k in keys], list(addresses),
                                               list(sizes), self._config))

    def close(self) -> None:
        """Leave the store."""
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = None
