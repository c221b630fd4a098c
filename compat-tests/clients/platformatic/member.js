'use strict'
// One member of a consumer group. The client hands records over as a stream, which is paused between two consume requests;
// heartbeats and rebalances go on by themselves. What the stream holds already it keeps through a rebalance and reads
// again after it: so each record is taken once, at or after the offset that was committed when its partition came.

const { Consumer } = require('@platformatic/kafka')
const base = require('../../nodeagent/member')
const { Unsupported } = require('../../nodeagent/protocol')

const PROTOCOLS = {
  roundrobin: [{ name: 'roundrobin', version: 1 }],
  'cooperative-sticky': [{ name: 'cooperative-sticky', version: 3 }],
}
const FETCH = { minBytes: 1, maxWaitTime: 200, maxBytesPerPartition: 512 * 1024, isolationLevel: 0, autocommit: false }

/** A message of the client as a record of the record files. */
function record({ partition, offset, timestamp, key, value, headerEntries }) {
  return { partition, offset, timestamp, key, value, headers: headerEntries }
}

class Member extends base.Member {
  constructor(options, request) {
    super(request)
    this.options = options
    this.settled = false // the assignment is the group's, and it is known where each of its partitions goes on
    this.seen = null // the client's list of assignments that was looked at last
    this.first = new Map() // assigned partition -> offset of the next record to take
    this.kept = [] // handed over and not taken
  }

  async open({ group, topic, instance, strategy, protocol = 'classic' }) {
    const options = { ...this.options, ...FETCH, groupId: group, sessionTimeout: 10000, rebalanceTimeout: 30000 }
    if (instance !== undefined) options.groupInstanceId = instance
    if (protocol === 'consumer') {
      // KIP-848: the broker assigns.
      options.groupProtocol = 'consumer'
      if (strategy !== undefined) options.groupRemoteAssignor = strategy
    } else {
      const protocols = PROTOCOLS[strategy ?? 'roundrobin']
      if (!protocols) throw new Unsupported(`the client has no assignor ${strategy}`)
      Object.assign(options, { protocols, heartbeatInterval: 300 })
    }
    this.consumer = new Consumer(options)
    this.consumer.on('error', error => this.failed(error))
    this.consumer.on('consumer:group:rebalance', () => this.rebalancing())
    for (const event of ['consumer:group:join', 'consumer:heartbeat:end']) this.consumer.on(event, () => this.look())
    this.stream = await this.consumer.consume({ ...FETCH, topics: [topic], mode: 'committed', fallbackMode: 'earliest' })
    this.crash = null
    this.stream.on('error', error => this.failed(error))
    this.stream.on('offsets', () => this.look())
    this.stream.on('data', message => this.hand(message))
    this.resting()
    this.look()
  }

  /**
   * The client tells of a rebalance before it joins again, or before it lets go of partitions: the commit is on its way
   * before that, and a broker answers the requests of a connection in their order.
   */
  rebalancing() {
    this.settled = false
    this.seen = this.consumer.assignments
    this.first.clear()
    this.assignment = []
    const offsets = this.take()
    if (this.closing || offsets.length === 0) return
    this.commitOffsets(offsets).catch(e => console.error(`${this.name}: commit before a rebalance: ${e.message}`))
  }

  /** Something has happened after which the assignment may be a new one. */
  async look() {
    const seen = this.consumer.assignments
    if (this.closing || !seen || seen === this.seen) return
    this.seen = seen
    this.settled = false
    const partitions = seen.find(({ topic }) => topic === this.topic)?.partitions ?? []
    try {
      const added = partitions.filter(partition => !this.first.has(partition))
      const committed = added.length > 0 ? await this.committed(added) : []
      if (this.seen !== seen || this.consumer.assignments !== seen) return
      for (const partition of added) this.first.set(partition, committed[partition] >= 0n ? committed[partition] : 0n)
    } catch (e) {
      console.error(`${this.name}: committed offsets: ${e.message}`)
      if (this.seen === seen) this.seen = null // once more at the next heartbeat
      return
    }
    for (const partition of this.first.keys()) {
      if (!partitions.includes(partition)) this.first.delete(partition)
    }
    this.take([...this.next.keys()].filter(partition => !partitions.includes(partition)))
    this.assignment = partitions
    this.settled = true
    this.reading()
  }

  async committed(partitions) {
    const offsets = await this.consumer.listCommittedOffsets({ topics: [{ topic: this.topic, partitions }] })
    return offsets.get(this.topic) ?? []
  }

  get taking() {
    return this.settled && this.demand !== null && this.demand.count < this.demand.wanted
  }

  hand(message) {
    if (!this.taking) {
      this.kept.push(message)
      this.resting()
      return
    }
    this.offer(message)
    this.drained()
    if (!this.taking) this.resting()
  }

  /** Takes a message of an assigned partition, unless it was taken before; keeps one of another partition. */
  offer(message) {
    const first = this.first.get(message.partition)
    if (first === undefined) this.kept.push(message)
    if (!(message.offset >= first)) return
    this.first.set(message.partition, message.offset + 1n)
    this.write(record(message))
  }

  reading() {
    if (!this.taking) return
    const kept = this.kept
    this.kept = []
    let at = 0
    while (at < kept.length && this.taking) this.offer(kept[at++])
    this.kept.push(...kept.slice(at))
    this.drained()
    if (this.taking) this.stream.resume()
  }

  resting() {
    this.stream.pause()
  }

  async commitOffsets(offsets) {
    await this.consumer.commit({ offsets: offsets.map(one => ({ ...one, leaderEpoch: -1 })) })
  }

  async leave() {
    await this.consumer?.close(true)
  }
}

module.exports = { FETCH, Member, record }
