'use strict'
// One member of a consumer group. kafkajs pushes batches to a handler; the handler takes them while a consume request is
// being answered, and otherwise the topic is paused: the client then goes on with heartbeats and rebalances by itself.

const { PartitionAssigners } = require('kafkajs')
const api = require('../../nodeagent/kafkajsapi')
const base = require('../../nodeagent/member')
const { Unsupported } = require('../../nodeagent/protocol')

// The client hands over all that was fetched of a partition in one go: a midway that is not the end wants small fetches.
const PARTITION_BYTES = 128 * 1024
// How long a fetch waits for records: also the time in which a pause or a request of the driver is noticed.
const FETCH_WAIT_MS = 200

class Member extends base.Member {
  constructor(kafka, request) {
    super(request)
    this.kafka = kafka
    this.generation = 0 // grows at every rebalance
    this.fetched = 0 // the generation in which the batches at hand were fetched
  }

  async open({ group, instance, strategy, protocol = 'classic' }) {
    if (protocol !== 'classic') throw new Unsupported('the client has no group protocol but the classic one')
    if (instance !== undefined) throw new Unsupported('the client has no static membership')
    if (strategy !== undefined && strategy !== 'roundrobin') {
      throw new Unsupported(`the client has no assignor ${strategy}: round robin is its only one`)
    }
    this.consumer = this.kafka.consumer({
      groupId: group,
      partitionAssigners: [PartitionAssigners.roundRobin],
      readUncommitted: true,
      sessionTimeout: 10000,
      rebalanceTimeout: 30000,
      heartbeatInterval: 500,
      maxWaitTimeInMs: FETCH_WAIT_MS,
      maxBytesPerPartition: PARTITION_BYTES,
    })
    const { GROUP_JOIN, REBALANCING, FETCH, CRASH } = this.consumer.events
    this.consumer.on(GROUP_JOIN, ({ payload }) => this.joined(payload.memberAssignment[this.topic] ?? []))
    this.consumer.on(REBALANCING, () => this.rebalancing())
    this.consumer.on(FETCH, () => {
      this.fetched = this.generation
    })
    this.consumer.on(CRASH, ({ payload }) => {
      if (!payload.restart) this.failed(payload.error) // else the client starts the consumer again by itself
    })
    await this.consumer.connect()
    await this.consumer.subscribe({ topic: this.topic, fromBeginning: true })
    this.crash = null
    const running = this.consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: payload => this.handle(payload),
    })
    this.resting()
    await running
    if (this.crash) throw this.crash
  }

  /**
   * The client eagerly gives up all partitions. It tells so just before it looks for the coordinator and joins again: the
   * commit is on its way before the join, and a broker answers the requests of a connection in their order.
   */
  rebalancing() {
    this.generation++
    this.assignment = []
    const offsets = this.take()
    if (offsets.length > 0) {
      this.commitOffsets(offsets).catch(e => console.error(`${this.name}: commit before a rebalance: ${e.message}`))
    }
  }

  joined(partitions) {
    this.generation++
    this.next.clear()
    this.assignment = partitions
    // A consumer that was started again knows nothing of a pause.
    if (!this.demand) this.resting()
  }

  /** Takes a whole batch, without waiting for anything in between, or leaves it to be fetched again. */
  handle({ batch, resolveOffset }) {
    if (!this.demand || this.fetched !== this.generation || batch.messages.length === 0) return
    for (const message of batch.messages) this.write(api.record(batch.partition, message))
    resolveOffset(batch.lastOffset())
    this.drained()
  }

  resting() {
    this.whileRunning(() => this.consumer.pause([{ topic: this.topic }]))
  }

  reading() {
    this.whileRunning(() => this.consumer.resume([{ topic: this.topic }]))
  }

  /** Between a crash and the client's own restart it refuses both; joined() then does what is due. */
  whileRunning(change) {
    try {
      change()
    } catch (e) {
      console.error(`${this.name}: ${e.message}`)
    }
  }

  async commitOffsets(offsets) {
    await this.consumer.commitOffsets(offsets.map(one => ({ ...one, offset: one.offset.toString() })))
  }

  async leave() {
    await this.consumer?.disconnect()
  }
}

module.exports = { Member, FETCH_WAIT_MS }
