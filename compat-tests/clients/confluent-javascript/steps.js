'use strict'
// The steps that need no group member, where they are this client's own.

const { KafkaJS } = require('@confluentinc/kafka-javascript')
const api = require('../../nodeagent/kafkajsapi')
const { STEP_MS } = require('../../nodeagent/member')
const { Unsupported } = require('../../nodeagent/protocol')
const { FETCH_WAIT_MS } = require('./member')

const { CompressionTypes, ConsumerGroupStates } = KafkaJS
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.SNAPPY,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

class BrokerSteps extends api.BrokerSteps {
  // A call waits until all that it was given is acknowledged.
  portion = { records: 5000, bytes: 4 * 1024 * 1024 }

  async producer({ codec, idempotent = false, acks = 'all', timeout_ms: timeout = STEP_MS }) {
    const producer = this.kafka.producer({
      kafkaJS: {
        idempotent,
        acks: acks === 'all' ? -1 : Number(acks),
        compression: CODECS[codec],
        // Without sequence numbers a retry could overtake a later request.
        maxInFlightRequests: idempotent ? 5 : 1,
      },
      'message.timeout.ms': timeout,
      'linger.ms': 5,
      'batch.size': 256 * 1024,
      'message.max.bytes': 4000000,
    })
    await producer.connect()
    return producer
  }

  async send(producer, { topic }, messages) {
    await producer.send({ topic, messages })
  }

  async reader(groupId, topic) {
    const consumer = this.kafka.consumer({
      kafkaJS: { groupId, fromBeginning: true, autoCommit: false, readUncommitted: true, maxWaitTimeInMs: FETCH_WAIT_MS },
      'js.consumer.max.batch.size': 500,
    })
    await consumer.connect()
    await consumer.subscribe({ topic })
    return consumer
  }

  async describeTopic({ topic }) {
    const admin = await this.admin()
    const [metadata] = await admin.fetchTopicMetadata({ topics: [topic] })
    return { partitions: this.partitions(metadata) }
  }

  async describeConfigs() {
    throw new Unsupported('the client has no call to describe configs')
  }

  async describeGroup({ group }) {
    const admin = await this.admin()
    const { groups } = await admin.describeGroups([group], { timeout: STEP_MS })
    const [{ error, state, members }] = groups
    if (error) throw error
    // The client's names are Kafka's words in capitals with underscores.
    const [name] = Object.entries(ConsumerGroupStates).find(([, number]) => number === state)
    const words = name.split('_').map(word => word[0] + word.slice(1).toLowerCase())
    return { state: words.join(''), members: members.length }
  }
}

module.exports = { BrokerSteps }
