'use strict'
// The steps without a group member, for the clients that have the API of kafkajs. An agent derives from BrokerSteps where
// its client differs.

const { randomUUID } = require('node:crypto')
const { STEP_MS } = require('./member')
const recordfile = require('./recordfile')

/** The headers of a message as the record files have them: the API has one object, with a list for a repeated key. */
function headerList(headers) {
  const list = []
  for (const [name, values] of Object.entries(headers ?? {})) {
    for (const one of Array.isArray(values) ? values : [values]) list.push([name, one])
  }
  return list
}

/** A message of a batch as a record. */
function record(partition, { offset, timestamp, key, value, headers }) {
  return { partition, offset: BigInt(offset), timestamp, key, value, headers: headerList(headers) }
}

/** An input record as a message. The API loses the order of repeated header keys among others. */
function message({ partition, timestamp, key, value, headers }) {
  const one = { key, value }
  if (partition >= 0) one.partition = partition
  if (timestamp >= 0n) one.timestamp = timestamp.toString()
  if (headers.length > 0) one.headers = Object.fromEntries(headers)
  return one
}

class BrokerSteps {
  constructor(kafka) {
    this.kafka = kafka
    this.connected = null
  }

  // What the agent brings.

  /** A connected producer for a produce request. */
  async producer(_request) {
    throw new Error('the agent has no producer')
  }

  /** Sends messages and waits until they are acknowledged. */
  async send(producer, _request, messages) {
    throw new Error('the agent sends nothing')
  }

  /** How much one call of send takes: {records, bytes}. */
  portion = { records: 1000, bytes: 512 * 1024 }

  /** A consumer that is subscribed to the topic; failed is called when it gives up. */
  async reader(_groupId, _topic, _failed) {
    throw new Error('the agent has no consumer')
  }

  // The steps.

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
    const topics = [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }]
    const created = await admin.createTopics({ topics, timeout: STEP_MS })
    if (!created) throw new Error(`topic ${topic} exists already`)
  }

  async produce(request) {
    const producer = await this.producer(request)
    let count = 0
    try {
      for (const records of recordfile.readLists(request.file, this.portion.records, this.portion.bytes)) {
        await this.send(producer, request, records.map(message))
        count += records.length
      }
    } finally {
      await producer.disconnect()
    }
    return { count }
  }

  async ends(topic) {
    const admin = await this.admin()
    return new Map((await admin.fetchTopicOffsets(topic)).map(({ partition, high }) => [partition, BigInt(high)]))
  }

  async seekTime({ topic, timestamp = 0, count: wanted = 0, out: path, timeout_ms: timeout = STEP_MS }) {
    const admin = await this.admin()
    const ends = await this.ends(topic)
    const offsets = {}
    const starts = new Map()
    for (const { partition, offset } of await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)) {
      // Where there is no such record the client puts the end of the partition for the broker's answer.
      const found = BigInt(offset) < ends.get(partition)
      offsets[partition] = found ? Number(offset) : -1
      if (found) starts.set(partition, offset)
    }
    const out = new recordfile.Writer(path)
    try {
      if (starts.size > 0 && wanted > 0) await this.readFrom(topic, starts, ends, wanted, out, timeout)
    } finally {
      out.close()
    }
    return { offsets }
  }

  /** The API cannot read but in a group: one of a name of its own, which is deleted afterwards. */
  async readFrom(topic, starts, ends, wanted, out, timeout) {
    const groupId = `seek-time-${randomUUID()}`
    let failed
    const failure = new Promise((_, reject) => {
      failed = reject
    })
    const consumer = await this.reader(groupId, topic, failed)
    try {
      let count = 0
      const enough = new Promise(resolve => {
        const timer = setTimeout(resolve, timeout)
        const eachBatch = async ({ batch, resolveOffset }) => {
          if (count >= wanted || !starts.has(batch.partition) || batch.messages.length === 0) return
          for (const one of batch.messages) out.write(record(batch.partition, one))
          count += batch.messages.length
          resolveOffset(batch.lastOffset())
          if (count >= wanted) {
            clearTimeout(timer)
            resolve()
          }
        }
        this.runFrom(consumer, topic, starts, ends, eachBatch).catch(failed)
      })
      await Promise.race([enough, failure])
    } finally {
      await consumer.disconnect()
      await this.deleteGroup({ group: groupId })
    }
  }

  /** Starts to read: each partition at its start, those that have none at their end. */
  async runFrom(consumer, topic, starts, ends, eachBatch) {
    const running = consumer.run({ ...this.runOptions, eachBatchAutoResolve: false, eachBatch })
    for (const [partition, end] of ends) {
      consumer.seek({ topic, partition, offset: starts.get(partition) ?? end.toString() })
    }
    await running
  }

  runOptions = {}

  partitions(metadata) {
    return metadata.partitions
      .map(({ partitionId, leader, replicas, isr }) => ({ id: partitionId, leader, replicas, isr }))
      .sort((a, b) => a.id - b.id)
  }

  async lag({ group, topic }) {
    const admin = await this.admin()
    const [committed] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    const ends = await this.ends(topic)
    const lag = {}
    for (const { partition, offset } of committed?.partitions ?? []) {
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

module.exports = { BrokerSteps, message, record }
