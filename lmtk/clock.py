"""How much of a training run is done: the share of its updates or, with -minutes, of its time if that is more."""

import time

UNLIMITED = 1_000_000  # epochs of a run that only -minutes ends


class Clock:
    """The time of a run. minutes: its limit, or None. seconds: how long the run took before, if it was resumed."""

    def __init__(self, minutes, seconds=0.0):
        self.limit, self.start = minutes and 60 * minutes, time.monotonic() - seconds

    def share(self, updates):
        """The share of the run that is done, from 0 to 1. updates: the share of the updates that are done."""
        if not self.limit:
            return updates
        return min(max(updates, (time.monotonic() - self.start) / self.limit), 1.0)

    def is_over(self):
        return bool(self.limit) and time.monotonic() - self.start >= self.limit
