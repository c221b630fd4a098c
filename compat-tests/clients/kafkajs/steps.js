'use strict'
// The steps that need no group member, where they are kafkajs's own.

const { ConfigResourceTypes, Partitioners } = require('kafkajs')
const api = require('../../nodeagent/kafkajsapi')
const { STEP_MS } = require('../../nodeagent/member')
const codecs = require('./codecs')
const { FETCH_WAIT_MS } = require('./member')

class BrokerSteps extends api.BrokerSteps {
  // The client sends what one call is given as one batch per partition; within a call its cost grows with the square.
  portion = { records: 1000, bytes: 512 * 1024 }
  runOptions = { autoCommit: false }

  async producer({ idempotent = false }) {
    const producer = this.kafka.producer({
      idempotent,
      maxInFlightRequests: 1,
      createPartitioner: Partitioners.DefaultPartitioner,
      allowAutoTopicCreation: false,
    })
    await producer.connect()
    return producer
  }

  async send(producer, { topic, codec, acks = 'all' }, messages) {
    await producer.send({
      topic,
      messages,
      acks: acks === 'all' ? -1 : Number(acks),
      compression: codecs[codec],
      timeout: STEP_MS,
    })
  }

  async reader(groupId, topic, failed) {
    const consumer = this.kafka.consumer({ groupId, readUncommitted: true, maxWaitTimeInMs: FETCH_WAIT_MS })
    consumer.on(consumer.events.CRASH, ({ payload }) => failed(payload.error))
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    return consumer
  }

  async describeTopic({ topic }) {
    const admin = await this.admin()
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return { partitions: this.partitions(topics[0]) }
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
}

module.exports = { BrokerSteps }
