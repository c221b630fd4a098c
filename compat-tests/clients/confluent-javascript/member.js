'use strict'
// One member of a consumer group. The client pushes batches to a handler; the handler takes them while a consume request
// is being answered, and otherwise pauses the partition: the client then goes on polling by itself.

const { KafkaJS, CODES } = require('@confluentinc/kafka-javascript')
const api = require('../../nodeagent/kafkajsapi')
const base = require('../../nodeagent/member')
const { Unsupported } = require('../../nodeagent/protocol')

const { roundRobin, range, cooperativeSticky } = KafkaJS.PartitionAssigners
const BATCH_RECORDS = 500
const FETCH_WAIT_MS = 200
// So often it is asked whether a commit has come about, and so long waited in between.
const ASKS_A_COMMIT = 20
const RETRY_MS = 100

const { ERR__ASSIGN_PARTITIONS } = CODES.ERRORS

class Member extends base.Member {
  constructor(kafka, request) {
    super(request)
    this.kafka = kafka
  }

  async open({ group, topic, instance, strategy = range, protocol = 'classic' }) {
    const kafkaJS = {
      groupId: group,
      fromBeginning: true,
      autoCommit: false,
      readUncommitted: true,
      maxWaitTimeInMs: FETCH_WAIT_MS,
    }
    const config = {
      kafkaJS,
      rebalance_cb: (event, partitions, answer) => this.rebalance(event, partitions, answer),
      'js.consumer.max.batch.size': BATCH_RECORDS,
    }
    if (instance !== undefined) config['group.instance.id'] = instance
    if (protocol === 'consumer') {
      // KIP-848: the broker assigns.
      config['group.protocol'] = 'consumer'
      if (strategy !== range) config['group.remote.assignor'] = strategy
    } else {
      if (![range, roundRobin, cooperativeSticky].includes(strategy)) {
        throw new Unsupported(`the client has no assignor ${strategy}`)
      }
      Object.assign(kafkaJS, { partitionAssigners: [strategy], sessionTimeout: 10000, heartbeatInterval: 300 })
    }
    this.consumer = this.kafka.consumer(config)
    await this.consumer.connect()
    await this.consumer.subscribe({ topic })
    this.crash = null
    await this.consumer.run({ eachBatchAutoResolve: false, eachBatch: payload => this.handle(payload) })
  }

  /** The client hands nothing over while this goes on, and answers the rebalance when it is done. */
  async rebalance(event, partitions, answer) {
    const numbers = partitions.map(({ partition }) => partition)
    if (event.code === ERR__ASSIGN_PARTITIONS) {
      await answer.assign(partitions)
      this.assignment = [...this.assignment, ...numbers]
      // One that was paused before may still be.
      if (this.demand && numbers.length > 0) this.consumer.resume([{ topic: this.topic, partitions: numbers }])
      return
    }
    const offsets = this.take(numbers)
    this.assignment = this.assignment.filter(partition => !numbers.includes(partition))
    if (this.closing || offsets.length === 0 || answer.assignmentLost()) return
    await this.commitBeforeLoss(offsets)
  }

  async commitBeforeLoss(offsets) {
    try {
      await this.send(offsets)
      for (let asked = 0; !(await this.areCommitted(offsets)); asked++) {
        if (asked === ASKS_A_COMMIT) throw new Error('the offsets are not committed')
        await new Promise(resolve => setTimeout(resolve, RETRY_MS))
      }
    } catch (e) {
      console.error(`${this.name}: commit before a rebalance: ${e.message}`)
    }
  }

  /** Takes a whole batch, without waiting for anything in between, or leaves it to be fetched again. */
  handle({ batch, resolveOffset, pause, isStale }) {
    if (!this.demand) {
      pause()
      return
    }
    if (isStale()) return
    for (const message of batch.messages) this.write(api.record(batch.partition, message))
    const last = batch.messages[batch.messages.length - 1]
    resolveOffset(last.offset, last.leaderEpoch)
    this.drained()
  }

  reading() {
    if (this.assignment.length > 0) this.consumer.resume([{ topic: this.topic, partitions: this.assignment }])
  }

  /**
   * Commits and waits for it. The promise of the client's call is kept when the commit is under way; whether it has come
   * about the client tells when it is asked what is committed. It says nothing of one that fails, so that is made again.
   */
  async commitOffsets(offsets) {
    const deadline = Date.now() + base.STEP_MS
    while (offsets.length > 0) {
      await this.send(offsets)
      for (let asked = 0; asked < ASKS_A_COMMIT; asked++) {
        if (await this.areCommitted(offsets)) return
        await new Promise(resolve => setTimeout(resolve, RETRY_MS))
      }
      if (Date.now() > deadline) throw new Error('the offsets are not committed')
      // A rebalance takes partitions away: they are committed then.
      offsets = this.offsets()
    }
  }

  send(offsets) {
    return this.consumer.commitOffsets(offsets.map(one => ({ ...one, offset: one.offset.toString() })))
  }

  async areCommitted(offsets) {
    const partitions = offsets.map(({ topic, partition }) => ({ topic, partition }))
    const committed = await this.consumer.committed(partitions, base.STEP_MS)
    const known = new Map(committed.map(({ partition, offset }) => [partition, `${offset}`]))
    return offsets.every(({ partition, offset }) => known.get(partition) === `${offset}`)
  }

  async leave() {
    await this.consumer?.disconnect()
  }
}

module.exports = { Member, FETCH_WAIT_MS }
