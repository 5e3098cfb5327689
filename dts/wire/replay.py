# SPDX-License-Identifier: Apache-2.0
"""Which packet numbers were seen: doc/wire.md section 5, in the way of RFC 6479."""

WINDOW = 131072


class ReplayWindow:
    """The window of one generation."""

    def __init__(self, size: int = WINDOW) -> None:
        """Nothing was seen."""
        self._size = size
        self._newest = -1
        self._seen: set[int] = set()

    def is_new(self, number: int) -> bool:
        """Neither seen nor too old to tell."""
        return number > self._newest - self._size and number not in self._seen

    def add(self, number: int) -> bool:
        """Whether it was new; it is not any more."""
        if not self.is_new(number):
            return False
        self._seen.add(number)
        self._newest = max(self._newest, number)
        if len(self._seen) > 2 * self._size:
            self._seen = {n for n in self._seen if n > self._newest - self._size}
        return True
