'use strict'
// The steps that need no group member. They run one after another.

const { randomUUID } = require('node:crypto')
const { ConfigResourceTypes, Partitioners } = require('kafkajs')
const codecs = require('./codecs')
const { FETCH_WAIT_MS, STEP_MS } = require('./member')
const recordfile = require('./recordfile')

// The client sends what one call is given as one batch per partition; within a call its cost grows with the square.
const CALL_RECORDS = 1000
const CALL_BYTES = 512 * 1024

class BrokerSteps {
  constructor(kafka) {
    this.kafka = kafka
    this.connected = null
  }

  steps() {
    return {
      'create-topic': r => this.createTopic(r),
      produce: r => this.produce(r),
      'seek-time': r => this.seekTime(r),
      'describe-topic': r => this.describeTopic(r),
      'describe-configs': r => this.describeConfigs(r),
      'describe-group': r => this.describeGroup(r),
      lag: r => this.lag(r),
      'delete-topic': r => this.deleteTopic(r),
      'delete-group': r => this.deleteGroup(r),
    }
  }

  async admin() {
    if (!this.connected) {
      const admin = this.kafka.admin()
      await admin.connect()
      this.connected = admin
    }
    return this.connected
  }

  async close() {
    await this.connected?.disconnect()
  }

  async createTopic({ topic, partitions, configs = {} }) {
    const admin = await this.admin()
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    const created = await admin.createTopics({
      topics: [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }],
      waitForLeaders: true,
      timeout: STEP_MS,
    })
    if (!created) throw new Error(`topic ${topic} exists already`)
  }

  async produce({ topic, file, codec, idempotent = false, acks = 'all' }) {
    const producer = this.kafka.producer({
      idempotent,
      maxInFlightRequests: 1,
      createPartitioner: Partitioners.DefaultPartitioner,
      allowAutoTopicCreation: false,
    })
    await producer.connect()
    let count = 0
    try {
      let messages = []
      let bytes = 0
      const send = async () => {
        await producer.send({
          topic,
          messages,
          acks: acks === 'all' ? -1 : Number(acks),
          compression: codecs[codec],
          timeout: STEP_MS,
        })
        count += messages.length
        messages = []
        bytes = 0
      }
      for (const { message, size } of recordfile.read(file)) {
        if (messages.length > 0 && (messages.length >= CALL_RECORDS || bytes + size > CALL_BYTES)) await send()
        messages.push(message)
        bytes += size
      }
      if (messages.length > 0) await send()
    } finally {
      await producer.disconnect()
    }
    return { count }
  }

  async seekTime({ topic, timestamp = 0, count: wanted = 0, out: path, timeout_ms: timeout = STEP_MS }) {
    const admin = await this.admin()
    const ends = new Map((await admin.fetchTopicOffsets(topic)).map(({ partition, high }) => [partition, BigInt(high)]))
    const offsets = {}
    const starts = new Map()
    const none = []
    for (const { partition, offset } of await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)) {
      // Where there is no such record the client puts the end of the partition for the broker's answer.
      if (BigInt(offset) >= ends.get(partition)) {
        offsets[partition] = -1
        none.push(partition)
      } else {
        offsets[partition] = Number(offset)
        starts.set(partition, offset)
      }
    }
    const out = new recordfile.Writer(path)
    try {
      if (starts.size > 0 && wanted > 0) await this.readFrom(topic, starts, none, wanted, out, timeout)
    } finally {
      out.close()
    }
    return { offsets }
  }

  /** The client cannot read but in a group: one of a name of its own, which is deleted afterwards. */
  async readFrom(topic, starts, none, wanted, out, timeout) {
    const groupId = `seek-time-${randomUUID()}`
    const consumer = this.kafka.consumer({ groupId, readUncommitted: true, maxWaitTimeInMs: FETCH_WAIT_MS })
    await consumer.connect()
    try {
      await consumer.subscribe({ topic, fromBeginning: true })
      let count = 0
      await new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, timeout)
        const done = () => {
          clearTimeout(timer)
          resolve()
        }
        consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
        const eachBatch = async ({ batch, resolveOffset }) => {
          if (count >= wanted || !starts.has(batch.partition) || batch.messages.length === 0) return
          for (const message of batch.messages) out.write(batch.partition, message)
          count += batch.messages.length
          resolveOffset(batch.lastOffset())
          if (count >= wanted) done()
        }
        consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch }).catch(reject)
        if (none.length > 0) consumer.pause([{ topic, partitions: none }])
        for (const [partition, offset] of starts) consumer.seek({ topic, partition, offset })
      })
    } finally {
      await consumer.disconnect()
      const admin = await this.admin()
      await admin.deleteGroups([groupId])
    }
  }

  async describeTopic({ topic }) {
    const admin = await this.admin()
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    const partitions = topics[0].partitions
      .map(({ partitionId, leader, replicas, isr }) => ({ id: partitionId, leader, replicas, isr }))
      .sort((a, b) => a.id - b.id)
    return { partitions }
  }

  async describeConfigs({ topic }) {
    const admin = await this.admin()
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
    })
    const entries = resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue])
    return { configs: Object.fromEntries(entries) }
  }

  async describeGroup({ group }) {
    const admin = await this.admin()
    const { groups } = await admin.describeGroups([group])
    return { state: groups[0].state, members: groups[0].members.length }
  }

  async lag({ group, topic }) {
    const admin = await this.admin()
    const [committed] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    const ends = new Map((await admin.fetchTopicOffsets(topic)).map(({ partition, high }) => [partition, BigInt(high)]))
    const lag = {}
    for (const { partition, offset } of committed.partitions) {
      if (BigInt(offset) >= 0n) lag[partition] = Number(ends.get(partition) - BigInt(offset))
    }
    return { lag }
  }

  async deleteTopic({ topic }) {
    const admin = await this.admin()
    await admin.deleteTopics({ topics: [topic], timeout: STEP_MS })
  }

  async deleteGroup({ group }) {
    const admin = await this.admin()
    await admin.deleteGroups([group])
  }
}

module.exports = { BrokerSteps }
