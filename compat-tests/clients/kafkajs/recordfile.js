'use strict'
// The protocol's record files, read and written as a stream (see ../../PROTOCOL.md).

const fs = require('node:fs')

const CHUNK = 1 << 20

/** Yields the records of an input file as messages for kafkajs, and how many bytes each is. */
function* read(path) {
  const file = fs.openSync(path, 'r')
  let data = Buffer.alloc(0)
  let at = 0

  // Makes sure that n bytes lie at `at`; false at the end of the file.
  const have = n => {
    while (data.length - at < n) {
      const chunk = Buffer.allocUnsafe(Math.max(CHUNK, n))
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
      const message = {}
      const partition = int()
      if (partition >= 0) message.partition = partition
      need(8)
      const timestamp = data.readBigInt64BE(at)
      at += 8
      if (timestamp >= 0n) message.timestamp = timestamp.toString()
      message.key = bytes()
      message.value = bytes()
      let size = 40 + (message.key?.length ?? 0) + (message.value?.length ?? 0)
      const headers = int()
      if (headers > 0) {
        message.headers = {}
        for (let i = 0; i < headers; i++) {
          const key = bytes().toString()
          const value = bytes()
          message.headers[key] = value
          size += key.length + (value?.length ?? 0) + 10
        }
      }
      yield { message, size }
    }
  } finally {
    fs.closeSync(file)
  }
}

/** Appends consumed messages to a file. */
class Writer {
  constructor(path) {
    this.file = fs.openSync(path, 'a')
    this.parts = []
    this.size = 0
  }

  write(partition, { offset, timestamp, key, value, headers }) {
    const head = Buffer.allocUnsafe(20)
    head.writeInt32BE(partition, 0)
    head.writeBigInt64BE(BigInt(offset), 4)
    head.writeBigInt64BE(BigInt(timestamp), 12)
    this.push(head)
    this.bytes(key)
    this.bytes(value)
    const list = []
    for (const [name, values] of Object.entries(headers ?? {})) {
      for (const one of Array.isArray(values) ? values : [values]) list.push([name, one])
    }
    this.int(list.length)
    for (const [name, one] of list) {
      this.bytes(Buffer.from(name))
      this.bytes(one)
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

module.exports = { read, Writer }
