"""Compares what a tutorial sent with what its members read, and ends with 1 and a sentence where they differ.

    python check.py SENT READ...

A line of each file is partition, offset, key and value, separated by tabs. All that was sent must have been read, exactly
once, as it was sent, in the order of the offsets of each partition; each member must have read something.
"""

import sys
from collections import Counter


def read(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t", 3) for line in file]


def difference(sent, members):
    """What is wrong, in a sentence, or None."""
    if not sent:
        return "nothing was sent"
    for name, lines in members.items():
        if not lines:
            return "%s is empty: that member read nothing" % name
        last = {}
        for partition, offset, _, _ in lines:
            if int(offset) <= last.get(partition, -1):
                return "%s has offset %s of partition %s after %d" % (name, offset, partition, last[partition])
            last[partition] = int(offset)
    want = Counter(map(tuple, sent))
    have = Counter(tuple(line) for lines in members.values() for line in lines)
    for what, lines in (("was sent and not read", want - have), ("was read and not sent, or read again", have - want)):
        if lines:
            partition, offset, key, value = next(iter(lines))
            return "%d in all: partition %s, offset %s, %s %s %s" % (sum(lines.values()), partition, offset, key, value, what)
    return None


def main():
    sent = read(sys.argv[1])
    members = {path: read(path) for path in sys.argv[2:]}
    wrong = difference(sent, members)
    if wrong:
        sys.exit(wrong)
    print("%d records sent, %s read, all equal" % (len(sent), " + ".join(str(len(lines)) for lines in members.values())))


if __name__ == "__main__":
    main()
