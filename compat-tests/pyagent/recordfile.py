"""The protocol's record files, read and written as a stream (see ../PROTOCOL.md).

A record to produce is a tuple (partition, timestamp, key, value, headers), a consumed one a tuple (partition, offset,
timestamp, key, value, headers). headers is a list of (str, bytes or None); key and value are bytes or None.
"""

import mmap
import os
import struct

_INPUT_HEAD = struct.Struct(">iqi")  # partition, timestamp, length of the key
_OUTPUT_HEAD = struct.Struct(">iqqi")  # the same with the offset
_INT = struct.Struct(">i")
_PAIR = struct.Struct(">ii")
_NULL = _INT.pack(-1)
_BUFFER = 1 << 20


def read(path):
    """Yields the records of an input file in the file's order, through a mapping: nothing is held but the record."""
    size = os.path.getsize(path)
    if size == 0:
        return
    head, integer = _INPUT_HEAD.unpack_from, _INT.unpack_from
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = 0
        while at < size:
            partition, timestamp, length = head(data, at)
            at += 16
            key = None
            if length >= 0:
                key = data[at : at + length]
                at += length
            (length,) = integer(data, at)
            at += 4
            value = None
            if length >= 0:
                value = data[at : at + length]
                at += length
            (count,) = integer(data, at)
            at += 4
            headers = []
            for _ in range(count):
                (length,) = integer(data, at)
                at += 4
                name = data[at : at + length].decode()
                at += length
                (length,) = integer(data, at)
                at += 4
                header = None
                if length >= 0:
                    header = data[at : at + length]
                    at += length
                headers.append((name, header))
            if at > size:
                raise ValueError("the record file %s ends inside a record" % path)
            yield partition, timestamp, key, value, headers


class Writer:
    """Appends consumed records to a file."""

    def __init__(self, path):
        self._file = open(path, "ab", buffering=_BUFFER)

    def write(self, record):
        partition, offset, timestamp, key, value, headers = record
        if key is None:
            parts = [_OUTPUT_HEAD.pack(partition, offset, timestamp, -1)]
        else:
            parts = [_OUTPUT_HEAD.pack(partition, offset, timestamp, len(key)), key]
        if value is None:
            parts.append(_PAIR.pack(-1, len(headers)))
        else:
            parts += (_INT.pack(len(value)), value, _INT.pack(len(headers)))
        for name, header in headers:
            name = name.encode()
            parts += (_INT.pack(len(name)), name)
            if header is None:
                parts.append(_NULL)
            else:
                parts += (_INT.pack(len(header)), header)
        self._file.write(b"".join(parts))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()
