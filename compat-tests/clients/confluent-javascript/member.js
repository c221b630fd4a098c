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
const RETRY_MS = 100

const { ERR__ASSIGN_PARTITIONS, ERR_REBALANCE_IN_PROGRESS, ERR_STALE_MEMBER_EPOCH } = CODES.ERRORS

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
    await this.send(offsets).catch(e => console.error(`${this.name}: commit before a rebalance: ${e.message}`))
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

  send(offsets) {
    return this.consumer.commitOffsets(offsets.map(one => ({ ...one, offset: one.offset.toString() })))
  }

  async commitOffsets(offsets) {
    const deadline = Date.now() + base.STEP_MS
    while (offsets.length > 0) {
      try {
        await this.send(offsets)
        return
      } catch (e) {
        // A rebalance under way has to be finished first; what it takes away is committed then.
        const again = e.code === ERR_REBALANCE_IN_PROGRESS || e.code === ERR_STALE_MEMBER_EPOCH
        if (!again || Date.now() > deadline) throw e
        await new Promise(resolve => setTimeout(resolve, RETRY_MS))
        offsets = this.offsets()
      }
    }
  }

  async leave() {
    await this.consumer?.disconnect()
  }
}

module.exports = { Member, FETCH_WAIT_MS }
