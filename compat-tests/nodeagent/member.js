'use strict'
// One member of a consumer group, less the client's calls. The client hands records over when it likes; they are written to
// the file of the consume request at hand. What comes between two requests is the agent's to hold back or to keep.

const recordfile = require('./recordfile')

const STEP_MS = 60000

/**
 * An agent derives from it and brings open(request), commitOffsets(offsets), leave(), reading() and resting(). It calls
 * write for each record that it takes, while there is a demand, drained after each handful of them, take when partitions are
 * taken away, and failed when the client gave up. It keeps assignment, and clears crash once the consumer is open.
 */
class Member {
  constructor(request) {
    this.name = request.consumer
    this.topic = request.topic
    this.assignment = [] // the member's partitions now, in any order
    this.next = new Map() // partition -> offset after its last record written; only of assigned partitions
    this.demand = null // the consume request being answered
    this.closing = false
    this.crash = new Error(`consumer ${request.consumer} could not be opened`) // why the consumer is of no use
    this.steps = Promise.resolve()
  }

  /** A consume request has come, this.demand is set. */
  reading() {}

  /** The consume request is answered, nothing more may be written. */
  resting() {}

  /** Writes a record for the request at hand: as recordfile.Writer takes it, with the offset as a BigInt. */
  write(record) {
    this.demand.out.write(record)
    this.demand.count++
    this.next.set(record.partition, record.offset + 1n)
  }

  /** Ends the request at hand once it has what it wants: nothing is written for it any more. */
  drained() {
    const demand = this.demand
    if (!demand || demand.count < demand.wanted) return
    this.demand = null
    demand.resolve()
  }

  /** The consumer is of no use any more. */
  failed(error) {
    this.crash = error
    this.demand?.reject(error)
  }

  /** Forgets the partitions, all by default, and returns what was written of them: [{topic, partition, offset}]. */
  take(partitions = [...this.next.keys()]) {
    const offsets = this.offsets(partitions)
    for (const partition of partitions) this.next.delete(partition)
    return offsets
  }

  offsets(partitions = [...this.next.keys()]) {
    return partitions
      .filter(partition => this.next.has(partition))
      .map(partition => ({ topic: this.topic, partition, offset: this.next.get(partition) }))
  }

  async consume({ count = 0, out, timeout_ms: timeout = STEP_MS }) {
    if (this.crash) throw this.crash
    const demand = { wanted: count, count: 0 }
    if (count > 0) {
      demand.out = new recordfile.Writer(out)
      let timer
      try {
        await new Promise((resolve, reject) => {
          Object.assign(demand, { resolve, reject })
          timer = setTimeout(resolve, timeout)
          this.demand = demand
          this.reading()
        })
      } finally {
        clearTimeout(timer)
        this.demand = null
        demand.out.close()
        this.resting()
      }
    }
    return { count: demand.count, assignment: [...this.assignment].sort((a, b) => a - b) }
  }

  async commit() {
    if (this.crash) throw this.crash
    const offsets = this.offsets()
    if (offsets.length > 0) await this.commitOffsets(offsets)
  }

  async close() {
    if (this.closing) return
    this.closing = true
    await this.leave()
  }
}

module.exports = { Member, STEP_MS }
