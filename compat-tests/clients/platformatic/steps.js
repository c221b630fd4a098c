'use strict'
// The steps that need no group member. They run one after another.

const { randomUUID } = require('node:crypto')
const { Admin, ConfigResourceTypes, Consumer, ListOffsetTimestamps, Producer } = require('@platformatic/kafka')
const { STEP_MS } = require('../../nodeagent/member')
const { Unsupported } = require('../../nodeagent/protocol')
const recordfile = require('../../nodeagent/recordfile')
const { FETCH, record } = require('./member')

// The client sends what one call is given as one batch per partition.
const CALL_RECORDS = 2000
const CALL_BYTES = 1024 * 1024

class BrokerSteps {
  constructor(options) {
    this.options = options
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

  get admin() {
    this.connected ??= new Admin(this.options)
    return this.connected
  }

  async close() {
    await this.connected?.close()
  }

  async createTopic({ topic, partitions, configs = {} }) {
    const list = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await this.admin.createTopics({ topics: [topic], partitions, replicas: 1, configs: list })
  }

  async produce({ topic, file, codec, idempotent = false, acks = 'all', timeout_ms: timeout = STEP_MS }) {
    const producer = new Producer({
      ...this.options,
      timeout: Math.min(timeout, STEP_MS),
      idempotent,
      acks: acks === 'all' ? -1 : Number(acks),
      compression: codec,
    })
    let count = 0
    try {
      for (const records of recordfile.readLists(file, CALL_RECORDS, CALL_BYTES)) {
        await producer.send({ messages: records.map(one => this.message(topic, one)) })
        count += records.length
      }
    } finally {
      await producer.close()
    }
    return { count }
  }

  message(topic, { partition, timestamp, key, value, headers }) {
    const one = { topic, key, value }
    if (partition >= 0) one.partition = partition
    if (timestamp >= 0n) one.timestamp = timestamp
    // The keys of the map are buffers, each of its own: a header's key may come twice.
    if (headers.length > 0) one.headers = new Map(headers.map(([name, content]) => [Buffer.from(name), content]))
    return one
  }

  async partitions(topic) {
    const metadata = await this.admin.metadata({ topics: [topic], forceUpdate: true })
    return metadata.topics.get(topic).partitions
  }

  /** The offset that the broker has for a timestamp, a BigInt for each partition; -1n where there is none. */
  async offsetsAt(topic, timestamp) {
    const partitions = [...(await this.partitions(topic)).keys()].map(partitionIndex => ({ partitionIndex, timestamp }))
    const [listed] = await this.admin.listOffsets({ topics: [{ name: topic, partitions }] })
    return new Map(listed.partitions.map(({ partitionIndex, offset }) => [partitionIndex, offset]))
  }

  async seekTime({ topic, timestamp = 0, count: wanted = 0, out: path, timeout_ms: timeout = STEP_MS }) {
    const starts = await this.offsetsAt(topic, BigInt(timestamp))
    const ends = await this.offsetsAt(topic, ListOffsetTimestamps.LATEST)
    const out = new recordfile.Writer(path)
    try {
      if (wanted > 0 && [...starts.values()].some(offset => offset >= 0n)) {
        await this.readFrom(topic, starts, ends, wanted, out, timeout)
      }
    } finally {
      out.close()
    }
    return { offsets: Object.fromEntries([...starts].map(([partition, offset]) => [partition, Number(offset)])) }
  }

  /** The client cannot read but in a group: one of a name of its own, which is deleted afterwards. */
  async readFrom(topic, starts, ends, wanted, out, timeout) {
    const groupId = `seek-time-${randomUUID()}`
    const consumer = new Consumer({ ...this.options, ...FETCH, groupId })
    try {
      const offsets = [...starts].map(([partition, offset]) => {
        return { topic, partition, offset: offset >= 0n ? offset : ends.get(partition) }
      })
      const stream = await consumer.consume({ ...FETCH, topics: [topic], mode: 'manual', offsets })
      let count = 0
      await new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, timeout)
        consumer.on('error', reject)
        stream.on('error', reject)
        stream.on('data', message => {
          if (count >= wanted || !(starts.get(message.partition) >= 0n)) return
          out.write(record(message))
          if (++count < wanted) return
          clearTimeout(timer)
          stream.pause()
          resolve()
        })
      })
    } finally {
      await consumer.close(true)
      await this.admin.deleteGroups({ groups: [groupId] })
    }
  }

  async describeTopic({ topic }) {
    const partitions = (await this.partitions(topic)).map(({ leader, replicas, isr }, id) => ({ id, leader, replicas, isr }))
    return { partitions }
  }

  async describeConfigs({ topic }) {
    const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }
    const [{ configs }] = await this.admin.describeConfigs({ resources: [resource] })
    return { configs: Object.fromEntries(configs.map(({ name, value }) => [name, value])) }
  }

  async describeGroup({ group }) {
    // Of a group of another type it gets a dead group from the broker and says no more.
    const others = await this.admin.listGroups({ types: ['consumer'] })
    if (others.has(group)) throw new Unsupported('the client has no call to describe groups but classic ones')
    const described = (await this.admin.describeGroups({ groups: [group] })).get(group)
    // The client's names are Kafka's words in capitals with underscores.
    const words = described.state.split('_').map(word => word[0].toUpperCase() + word.slice(1).toLowerCase())
    return { state: words.join(''), members: described.members.size }
  }

  async lag({ group, topic }) {
    const [{ topics }] = await this.admin.listConsumerGroupOffsets({ groups: [group] })
    const ends = await this.offsetsAt(topic, ListOffsetTimestamps.LATEST)
    const lag = {}
    for (const { partitionIndex, committedOffset } of topics.find(({ name }) => name === topic)?.partitions ?? []) {
      if (committedOffset >= 0n) lag[partitionIndex] = Number(ends.get(partitionIndex) - committedOffset)
    }
    return { lag }
  }

  async deleteTopic({ topic }) {
    await this.admin.deleteTopics({ topics: [topic] })
  }

  async deleteGroup({ group }) {
    await this.admin.deleteGroups({ groups: [group] })
  }
}

module.exports = { BrokerSteps }
