"""The check catches what it is there for: python -m unittest in this folder."""

import unittest

from check import difference

SENT = [["0", "0", "a", "1"], ["0", "1", "a", "2"], ["1", "0", "b", "3"], ["1", "1", "b", "4"]]


class Difference(unittest.TestCase):
    def test_equal(self):
        self.assertIsNone(difference(SENT, {"one": SENT}))
        self.assertIsNone(difference(SENT, {"one": SENT[:2], "two": SENT[2:]}))
        self.assertIsNone(difference(SENT, {"one": [SENT[2], SENT[0], SENT[3], SENT[1]]}))

    def test_nothing_sent(self):
        self.assertIn("nothing was sent", difference([], {"one": []}))

    def test_member_without_records(self):
        self.assertIn("two is empty", difference(SENT, {"one": SENT, "two": []}))

    def test_lost(self):
        self.assertIn("offset 1, b 4 was sent and not read", difference(SENT, {"one": SENT[:3]}))

    def test_read_by_both(self):
        self.assertIn("read again", difference(SENT, {"one": SENT, "two": SENT[2:]}))

    def test_read_twice_by_one(self):
        self.assertIn("after", difference(SENT, {"one": SENT + SENT[3:]}))

    def test_altered(self):
        altered = [line[:] for line in SENT]
        altered[1][3] = "two"
        self.assertIn("was sent and not read", difference(SENT, {"one": altered}))

    def test_reordered(self):
        self.assertIn("offset 0 of partition 0 after 1", difference(SENT, {"one": [SENT[1], SENT[0], SENT[2], SENT[3]]}))


if __name__ == "__main__":
    unittest.main()
