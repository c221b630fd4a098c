"""What the Python agents share, without a client: python -m unittest pyagent.test_pyagent in compat-tests."""

import io
import json
import os
import struct
import tempfile
import time
import unittest

from pyagent import recordfile
from pyagent.member import Member
from pyagent.protocol import Answers


def packed(*parts):
    return b"".join(struct.pack(">" + kind, value) if kind != "s" else value for kind, value in parts)


class RecordFile(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "records")

    def write(self, data):
        with open(self.path, "wb") as file:
            file.write(data)

    def test_input(self):
        full = packed(("i", 3), ("q", 1700), ("i", 2), ("s", b"ab"), ("i", 0), ("i", 2))
        full += packed(("i", 2), ("s", "ü".encode()), ("i", -1), ("i", 0), ("i", 1), ("s", b"\xff"))
        bare = packed(("i", -1), ("q", -1), ("i", -1), ("i", -1), ("i", 0))
        self.write(full + bare)
        want = [(3, 1700, b"ab", b"", [("ü", None), ("", b"\xff")]), (-1, -1, None, None, [])]
        self.assertEqual(list(recordfile.read(self.path)), want)

    def test_empty_input(self):
        self.write(b"")
        self.assertEqual(list(recordfile.read(self.path)), [])

    def test_cut_input(self):
        record = packed(("i", 0), ("q", 0), ("i", 1), ("s", b"k"), ("i", 3), ("s", b"val"), ("i", 0))
        for length in range(1, len(record)):
            self.write(record[:length])
            with self.assertRaises((ValueError, struct.error), msg=length):
                list(recordfile.read(self.path))

    def test_output_is_appended(self):
        for offset in (7, 8):
            with recordfile.Writer(self.path) as out:
                out.write((1, offset, 5, None, b"v", [("h", None), ("h", b"")]))
        want = b"".join(
            packed(("i", 1), ("q", offset), ("q", 5), ("i", -1), ("i", 1), ("s", b"v"), ("i", 2))
            + packed(("i", 1), ("s", b"h"), ("i", -1), ("i", 1), ("s", b"h"), ("i", 0))
            for offset in (7, 8)
        )
        with open(self.path, "rb") as file:
            self.assertEqual(file.read(), want)


class Fake(Member):
    """A client of two partitions whose poll hands over one record of each until it is paused."""

    def open(self, request):
        self.position = {0: 0, 1: 0}
        self.paused = False
        self.commits = []
        self.events = []

    def poll(self, seconds):
        if self.events:
            self.events.pop()()
        if self.paused:
            time.sleep(0.001)
            return []
        records = [(p, offset, 0, None, b"", ()) for p, offset in self.position.items()]
        for p in self.position:
            self.position[p] += 1
        return records

    def pause_all(self):
        self.paused = True

    def resume_all(self):
        self.paused = False

    def assignment(self):
        return list(self.position)

    def commit(self, offsets):
        self.commits.append(offsets)

    def in_rebalance(self, error):
        return False

    def close(self):
        self.revoked(list(self.position))


class OneMember(unittest.TestCase):
    def setUp(self):
        self.out = io.StringIO()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "out")
        self.member = Fake({"id": 1, "step": "consumer-open", "consumer": "A", "topic": "t"}, Answers(self.out))
        self.addCleanup(self.member.stop)

    def ask(self, step, **fields):
        lines = len(self.out.getvalue().splitlines())
        self.member.submit({"id": 9, "step": step, "consumer": "A", **fields})
        for _ in range(2000):
            answers = self.out.getvalue().splitlines()
            if len(answers) > max(lines, 1):
                return json.loads(answers[-1])
            time.sleep(0.005)
        self.fail("no answer to " + step)

    def test_commit_is_what_was_written(self):
        answer = self.ask("consume", count=4, out=self.path, timeout_ms=5000)
        self.assertEqual((answer["count"], answer["assignment"]), (4, [0, 1]))
        self.ask("commit")
        self.assertEqual(self.member.commits, [{0: 2, 1: 2}])

    def test_revoked_is_committed_once_and_forgotten(self):
        self.ask("consume", count=2, out=self.path, timeout_ms=5000)
        self.member.events.append(lambda: self.member.revoked([1]))
        while self.member.events:
            time.sleep(0.001)
        self.ask("commit")
        self.assertEqual(self.member.commits, [{1: 1}, {0: 1}])

    def test_lost_is_not_committed(self):
        self.ask("consume", count=2, out=self.path, timeout_ms=5000)
        self.member.events.append(lambda: self.member.lost([0, 1]))
        while self.member.events:
            time.sleep(0.001)
        self.ask("commit")
        self.assertEqual(self.member.commits, [])

    def test_kept_of_a_lost_partition_is_thrown_away(self):
        self.member.kept_max = 1_000_000
        self.member.paused = False
        while len(self.member._kept) < 4:
            time.sleep(0.001)

        def lose():  # within a poll, as clients do it
            self.member.paused = True
            del self.member.position[1]
            self.member.lost([1])

        self.member.events.append(lose)
        while self.member.events:
            time.sleep(0.001)
        self.ask("consume", count=2, out=self.path, timeout_ms=5000)
        self.ask("commit")
        self.assertEqual([list(offsets) for offsets in self.member.commits], [[0]])

    def test_close_does_not_commit(self):
        self.ask("consume", count=2, out=self.path, timeout_ms=5000)
        self.assertTrue(self.ask("consumer-close")["ok"])
        self.assertEqual(self.member.commits, [])

    def test_unknown_step(self):
        self.assertIn("no step", self.ask("dance")["unsupported"])


if __name__ == "__main__":
    unittest.main()
