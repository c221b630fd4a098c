'use strict'
// The steps that need no group member. They run one after another.

const rdkafka = require('node-rdkafka')
const { STEP_MS } = require('../../nodeagent/member')
const { Unsupported } = require('../../nodeagent/protocol')
const recordfile = require('../../nodeagent/recordfile')
const { call, connect, record } = require('./client')

const POLL_MS = 100
const RECORDS_A_POLL = 500
// So often the client is asked for what has been acknowledged, counted in records sent.
const SENT_A_POLL = 500

class BrokerSteps {
  constructor(brokers) {
    this.brokers = brokers
  }

  steps() {
    const lacking = what => async () => {
      throw new Unsupported(`the client has no call to ${what}`)
    }
    return {
      'create-topic': r => this.createTopic(r),
      produce: r => this.produce(r),
      'seek-time': r => this.seekTime(r),
      'describe-topic': r => this.describeTopic(r),
      'describe-configs': lacking('describe configs'),
      'describe-group': lacking('describe groups'),
      lag: r => this.lag(r),
      'delete-topic': r => this.deleteTopic(r),
      'delete-group': lacking('delete groups'),
    }
  }

  async withAdmin(use) {
    const admin = rdkafka.AdminClient.create({ 'metadata.broker.list': this.brokers })
    try {
      await use(admin)
    } finally {
      admin.disconnect()
    }
  }

  /** A consumer that joins no group: the client wants a group's name even where partitions are assigned by hand. */
  async withConsumer(group, use) {
    const config = { 'metadata.broker.list': this.brokers, 'group.id': group, 'enable.auto.commit': false }
    const consumer = await connect(new rdkafka.KafkaConsumer(config, { 'auto.offset.reset': 'error' }))
    consumer.setDefaultConsumeTimeout(POLL_MS)
    try {
      return await use(consumer)
    } finally {
      await call(consumer, 'disconnect')
    }
  }

  async createTopic({ topic, partitions, configs = {} }) {
    const wanted = { topic, num_partitions: partitions, replication_factor: 1, config: configs }
    await this.withAdmin(admin => call(admin, 'createTopic', wanted, STEP_MS))
  }

  async deleteTopic({ topic }) {
    await this.withAdmin(admin => call(admin, 'deleteTopic', topic, STEP_MS))
  }

  async produce({ topic, file, codec, idempotent = false, acks = 'all', timeout_ms: timeout = STEP_MS }) {
    const producer = await connect(
      new rdkafka.Producer(
        {
          'metadata.broker.list': this.brokers,
          'compression.type': codec,
          'enable.idempotence': idempotent,
          // Without sequence numbers a retry could overtake a later request.
          'max.in.flight.requests.per.connection': idempotent ? 5 : 1,
          'linger.ms': 10,
          'batch.size': 256 * 1024,
          'message.max.bytes': 4000000,
          dr_cb: true,
        },
        { acks: acks === 'all' ? -1 : Number(acks), 'message.timeout.ms': timeout },
      ),
    )
    let acknowledged = 0
    let failure = null
    const offsets = {}
    producer.on('delivery-report', (error, { partition, offset }) => {
      if (error) {
        failure ??= error
        return
      }
      acknowledged++
      // Acknowledgements of a partition come in the order of its offsets; without any (acks=0) the client knows none.
      if (offset >= 0) offsets[partition] = offset
    })
    const turn = () => new Promise(resolve => setImmediate(resolve))
    const poll = async () => {
      producer.poll()
      await turn()
      if (failure) throw failure
    }
    try {
      let sent = 0
      for (const { partition, timestamp, key, value, headers } of recordfile.read(file)) {
        const list = headers.map(([name, content]) => ({ [name]: content.toString() }))
        const time = timestamp >= 0n ? Number(timestamp) : null
        while (!this.take(producer, topic, partition, value, key, time, list)) await poll()
        if (++sent % SENT_A_POLL === 0) await poll()
      }
      await call(producer, 'flush', timeout)
      while (acknowledged < sent) await poll()
    } finally {
      await call(producer, 'disconnect', 1000)
    }
    return { count: acknowledged, ...(Object.keys(offsets).length > 0 ? { offsets } : {}) }
  }

  /** Whether the client took the record; when its queue is full it has to be polled first. */
  take(producer, topic, partition, value, key, time, headers) {
    try {
      producer.produce(topic, partition, value, key, time, undefined, headers)
      return true
    } catch (e) {
      if (e.code === rdkafka.CODES.ERRORS.ERR__QUEUE_FULL) return false
      throw e
    }
  }

  async partitions(client, topic) {
    const { topics } = await call(client, 'getMetadata', { topic, timeout: STEP_MS })
    return topics.find(({ name }) => name === topic).partitions
  }

  async seekTime({ topic, timestamp = 0, count: wanted = 0, out: path, timeout_ms: timeout = STEP_MS }) {
    const deadline = Date.now() + timeout
    return this.withConsumer('no-group', async consumer => {
      const asked = (await this.partitions(consumer, topic)).map(({ id }) => ({ topic, partition: id, offset: timestamp }))
      const found = await call(consumer, 'offsetsForTimes', asked, STEP_MS)
      const offsets = {}
      for (const { partition, offset } of found) offsets[partition] = offset >= 0 ? offset : -1
      const starts = found.filter(({ offset }) => offset >= 0)
      const out = new recordfile.Writer(path)
      try {
        consumer.assign(starts)
        let written = 0
        while (starts.length > 0 && written < wanted && Date.now() < deadline) {
          const messages = await call(consumer, 'consume', Math.min(RECORDS_A_POLL, wanted - written))
          for (const message of messages) out.write(record(message))
          written += messages.length
        }
      } finally {
        out.close()
      }
      return { offsets }
    })
  }

  async describeTopic({ topic }) {
    return this.withConsumer('no-group', async consumer => {
      const partitions = (await this.partitions(consumer, topic)).map(({ id, leader, replicas, isrs }) => {
        return { id, leader, replicas, isr: isrs }
      })
      return { partitions: partitions.sort((a, b) => a.id - b.id) }
    })
  }

  async lag({ group, topic }) {
    return this.withConsumer(group, async consumer => {
      const asked = (await this.partitions(consumer, topic)).map(({ id }) => ({ topic, partition: id }))
      const lag = {}
      for (const { partition, offset } of await call(consumer, 'committed', asked, STEP_MS)) {
        if (!(offset >= 0)) continue
        const { highOffset } = await call(consumer, 'queryWatermarkOffsets', topic, partition, STEP_MS)
        lag[partition] = highOffset - offset
      }
      return { lag }
    })
  }
}

module.exports = { BrokerSteps }
