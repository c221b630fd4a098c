'use strict'
// The protocol's record files, read and written as a stream (see ../PROTOCOL.md).

const fs = require('node:fs')

const CHUNK = 1 << 20
// What a record takes besides its own bytes: enough for a client to bound what it holds.
const RECORD_OVERHEAD = 40
const HEADER_OVERHEAD = 10

/**
 * Yields the records of an input file: {partition, timestamp, key, value, headers, size}. partition is -1 and timestamp -1n
 * where none is given, key and value are Buffers or null, headers is a list of [string, Buffer or null], size is about how
 * many bytes the record is.
 */
function* read(path) {
  const file = fs.openSync(path, 'r')
  let data = Buffer.alloc(0)
  let at = 0

  // Makes sure that n bytes lie at `at`; false at the end of the file.
  const have = n => {
    while (data.length - at < n) {
      const chunk = Buffer.allocUnsafe(CHUNK)
      const count = fs.readSync(file, chunk)
      if (count === 0) {
        if (data.length > at) throw new Error(`the record file ${path} ends inside a record`)
        return false
      }
      data = Buffer.concat([data.subarray(at), chunk.subarray(0, count)])
      at = 0
    }
    return true
  }
  const need = n => {
    if (!have(n)) throw new Error(`the record file ${path} ends inside a record`)
  }
  const int = () => {
    need(4)
    at += 4
    return data.readInt32BE(at - 4)
  }
  const bytes = () => {
    const length = int()
    if (length < 0) return null
    need(length)
    at += length
    return data.subarray(at - length, at)
  }

  try {
    while (have(12)) {
      const partition = int()
      need(8)
      const timestamp = data.readBigInt64BE(at)
      at += 8
      const key = bytes()
      const value = bytes()
      let size = RECORD_OVERHEAD + (key?.length ?? 0) + (value?.length ?? 0)
      const headers = []
      for (let left = int(); left > 0; left--) {
        const name = bytes().toString()
        const content = bytes()
        headers.push([name, content])
        size += name.length + (content?.length ?? 0) + HEADER_OVERHEAD
      }
      yield { partition, timestamp, key, value, headers, size }
    }
  } finally {
    fs.closeSync(file)
  }
}

/** Yields the records of an input file in lists of at most so many records and, but for a larger record, so many bytes. */
function* readLists(path, records, bytes) {
  let list = []
  let size = 0
  for (const record of read(path)) {
    if (list.length > 0 && (list.length >= records || size + record.size > bytes)) {
      yield list
      list = []
      size = 0
    }
    list.push(record)
    size += record.size
  }
  if (list.length > 0) yield list
}

/** Appends consumed records to a file. */
class Writer {
  constructor(path) {
    this.file = fs.openSync(path, 'a')
    this.parts = []
    this.size = 0
  }

  /** offset and timestamp are whatever BigInt() takes, headers a list of [string or Buffer, Buffer or null]. */
  write({ partition, offset, timestamp, key, value, headers }) {
    const head = Buffer.allocUnsafe(20)
    head.writeInt32BE(partition, 0)
    head.writeBigInt64BE(BigInt(offset), 4)
    head.writeBigInt64BE(BigInt(timestamp), 12)
    this.push(head)
    this.bytes(key)
    this.bytes(value)
    this.int(headers.length)
    for (const [name, content] of headers) {
      this.bytes(Buffer.from(name))
      this.bytes(content)
    }
    if (this.size >= CHUNK) this.flush()
  }

  int(number) {
    const buffer = Buffer.allocUnsafe(4)
    buffer.writeInt32BE(number)
    this.push(buffer)
  }

  bytes(buffer) {
    this.int(buffer == null ? -1 : buffer.length)
    if (buffer != null) this.push(buffer)
  }

  push(buffer) {
    this.parts.push(buffer)
    this.size += buffer.length
  }

  flush() {
    let rest = Buffer.concat(this.parts)
    while (rest.length > 0) rest = rest.subarray(fs.writeSync(this.file, rest))
    this.parts = []
    this.size = 0
  }

  close() {
    this.flush()
    fs.closeSync(this.file)
  }
}

module.exports = { read, readLists, Writer }
