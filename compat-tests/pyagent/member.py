"""One member of a consumer group, on a thread of its own."""

import queue
import sys
import threading
import time

from pyagent import recordfile
from pyagent.protocol import Unsupported

_IDLE_POLL_SECONDS = 0.1
_STEP_SECONDS = 60


class Member:
    """Carries out the steps that name one consumer, in order; between them it polls with all partitions paused, once it
    keeps more than kept_max records.

    An agent derives from it and brings the client's calls (the methods below that raise NotImplementedError, all called on
    this thread). It calls revoked and lost from the client's rebalance callbacks, or take where the callback has to commit
    in its own way.
    """

    kept_max = 0

    def __init__(self, request, answers):
        self.topic = request["topic"]
        self._open_request = request
        self._answers = answers
        self._requests = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._closing = False
        self._written = {}  # partition -> offset after its last record written; only of assigned partitions
        self.reading = False  # a consume is in progress
        self._kept = []  # records that came without being asked for, in the order in which they came
        self._thread = threading.Thread(target=self._run, daemon=True, name="member-" + request["consumer"])
        self._thread.start()

    # What the agent brings.

    def open(self, request):
        """Opens the consumer and subscribes to request["topic"]."""
        raise NotImplementedError

    def poll(self, seconds):
        """Returns the consumed records (tuples as in recordfile) that the client hands over within that time."""
        raise NotImplementedError

    def pause_all(self):
        raise NotImplementedError

    def resume_all(self):
        raise NotImplementedError

    def assignment(self):
        """The member's partitions, numbers in any order."""
        raise NotImplementedError

    def commit(self, offsets):
        """Commits {partition: offset} and waits for it."""
        raise NotImplementedError

    def in_rebalance(self, error):
        """Whether a commit failed with error only because a rebalance has to be finished by polling."""
        raise NotImplementedError

    def close(self):
        """Leaves the group without committing."""
        raise NotImplementedError

    # What the agent calls.

    def revoked(self, partitions):
        """A rebalance takes these partitions away: what was read of them is committed, once."""
        offsets = self.take(partitions)
        if offsets:
            self.commit(offsets)

    def take(self, partitions):
        """Forgets the partitions and returns {partition: offset} to commit for them: nothing when the member closes."""
        offsets = {p: self._written[p] for p in partitions if p in self._written}
        self.lost(partitions)
        return {} if self._closing else offsets

    def lost(self, partitions):
        """These partitions are somebody else's already."""
        gone = set(partitions)
        for partition in gone:
            self._written.pop(partition, None)
        self._kept = [record for record in self._kept if record[0] not in gone]

    def submit(self, request):
        self._requests.put(request)

    def stop(self):
        self._stopping.set()

    def join(self, seconds):
        self._thread.join(seconds)

    # The thread.

    def _run(self):
        opened = False

        def open_consumer(request):
            nonlocal opened
            self.open(request)
            opened = True

        self._answers.answer(self._open_request, open_consumer)
        while not self._closing and not self._stopping.is_set():
            try:
                # A consumer that failed to open has nothing to poll.
                request = self._requests.get_nowait() if opened else self._requests.get(timeout=0.5)
            except queue.Empty:
                if opened:
                    self._idle()
                continue
            self._answers.answer(request, self._step if opened else self._not_open)
        if opened and not self._closing:
            self._closing = True
            self.close()

    def _not_open(self, request):
        raise RuntimeError("consumer %s could not be opened" % request["consumer"])

    def _step(self, request):
        if request["step"] == "consume":
            return self._consume(request)
        if request["step"] == "commit":
            return self._commit()
        if request["step"] == "consumer-close":
            self._closing = True
            return self.close()
        raise Unsupported("this agent has no step %s" % request["step"])

    def _idle(self):
        try:
            if len(self._kept) >= self.kept_max:
                self.pause_all()
            records = self.poll(_IDLE_POLL_SECONDS)  # may itself replace what is kept
            self._kept += records
        except Exception as e:
            print("poll between requests: %s: %s" % (type(e).__name__, e), file=sys.stderr)
            time.sleep(_IDLE_POLL_SECONDS)

    def _consume(self, request):
        wanted = request.get("count", 0)  # a driver may leave out a zero
        deadline = time.monotonic() + request.get("timeout_ms", _STEP_SECONDS * 1000) / 1000
        count = 0
        if wanted > 0:
            self.reading = True
            self.resume_all()
            with recordfile.Writer(request["out"]) as out:
                records, self._kept = self._kept, []
                while True:
                    for record in records:
                        out.write(record)
                        self._written[record[0]] = record[1] + 1
                    count += len(records)
                    left = deadline - time.monotonic()
                    if count >= wanted or left <= 0 or self._stopping.is_set():
                        break
                    self.resume_all()  # again each time: a partition may just have been assigned, and paused
                    records = self.poll(min(left, 0.2))
            self.reading = False
        return {"count": count, "assignment": sorted(self.assignment())}

    def _commit(self):
        deadline = time.monotonic() + _STEP_SECONDS
        while self._written:
            try:
                self.commit(dict(self._written))
                return
            except Exception as e:
                if not self.in_rebalance(e) or time.monotonic() > deadline:
                    raise
                self._idle()
