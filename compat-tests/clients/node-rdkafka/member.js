'use strict'
// One member of a consumer group. librdkafka rebalances only while it is polled, and tells of a rebalance while a poll
// is under way: it is answered between two polls, when everything that was read before it has been handed over.

const rdkafka = require('node-rdkafka')
const base = require('../../nodeagent/member')
const { Unsupported } = require('../../nodeagent/protocol')
const { call, connect, record } = require('./client')

const STRATEGIES = ['range', 'roundrobin', 'cooperative-sticky']
const RECORDS_A_POLL = 500
const POLL_MS = 100
// What comes between two requests is kept up to here, and then the partitions are paused. (One that is paused while the
// client still looks for its start may be read from its start twice.)
const KEPT_MAX = 5000

const { ERR__ASSIGN_PARTITIONS, ERR__REVOKE_PARTITIONS } = rdkafka.CODES.ERRORS

class Member extends base.Member {
  constructor(brokers, request) {
    super(request)
    this.brokers = brokers
    this.kept = []
    this.rebalances = [] // told and not answered
    this.paused = false
  }

  async open({ group, topic, instance, strategy = 'range', protocol = 'classic' }) {
    const config = {
      'metadata.broker.list': this.brokers,
      'group.id': group,
      'enable.auto.commit': false,
      'isolation.level': 'read_uncommitted',
      rebalance_cb: (event, partitions) => this.rebalance({ event, partitions }),
    }
    if (instance !== undefined) config['group.instance.id'] = instance
    if (protocol === 'consumer') {
      // KIP-848: the broker assigns.
      config['group.protocol'] = 'consumer'
      if (strategy !== 'range') config['group.remote.assignor'] = strategy
    } else {
      if (!STRATEGIES.includes(strategy)) throw new Unsupported(`the client has no assignor ${strategy}`)
      config['partition.assignment.strategy'] = strategy
      config['session.timeout.ms'] = 10000
      config['heartbeat.interval.ms'] = 300
    }
    const consumer = new rdkafka.KafkaConsumer(config, { 'auto.offset.reset': 'earliest' })
    consumer.setDefaultConsumeTimeout(POLL_MS)
    this.consumer = await connect(consumer)
    consumer.subscribe([topic])
    this.crash = null
    this.polling = this.poll()
  }

  rebalance(told) {
    // While it closes the client waits for the answer, and nobody polls any more.
    if (this.closing) this.answer(told)
    else this.rebalances.push(told)
  }

  async poll() {
    while (!this.closing) {
      try {
        for (const told of this.rebalances.splice(0)) this.answer(told)
        if (!this.demand && !this.paused && this.kept.length >= KEPT_MAX) {
          this.consumer.pause(this.consumer.assignments())
          this.paused = true
        }
        this.kept.push(...(await call(this.consumer, 'consume', RECORDS_A_POLL)))
        this.hand()
      } catch (e) {
        console.error(`${this.name}: poll: ${e.message}`)
        await new Promise(resolve => setTimeout(resolve, POLL_MS))
      }
    }
  }

  /** Hands over what is kept, if it is asked for. */
  hand() {
    if (!this.demand) return
    for (const message of this.kept.splice(0)) this.write(record(message))
    this.drained()
  }

  reading() {
    this.resume()
    this.hand()
  }

  /** A partition that was taken away while it was paused, and came back, is still paused. */
  resume() {
    this.consumer.resume(this.consumer.assignments())
    this.paused = false
  }

  answer({ event, partitions }) {
    const cooperative = this.consumer.rebalanceProtocol() === 'COOPERATIVE'
    const numbers = partitions.map(({ partition }) => partition)
    if (event.code === ERR__ASSIGN_PARTITIONS) {
      if (cooperative) this.consumer.incrementalAssign(partitions)
      else this.consumer.assign(partitions)
      this.assignment = [...this.assignment, ...numbers]
      this.paused = false
      if (this.demand) this.resume()
    } else if (event.code === ERR__REVOKE_PARTITIONS) {
      const offsets = this.take(numbers)
      this.kept = this.kept.filter(({ partition }) => !numbers.includes(partition))
      this.assignment = this.assignment.filter(partition => !numbers.includes(partition))
      if (!this.closing && offsets.length > 0) this.commitBeforeLoss(offsets)
      if (cooperative) this.consumer.incrementalUnassign(partitions)
      else this.consumer.unassign()
    } else {
      console.error(`${this.name}: rebalance: ${event.message}`)
      this.consumer.unassign()
    }
  }

  commitBeforeLoss(offsets) {
    try {
      this.consumer.commitSync(offsets.map(one => ({ ...one, offset: Number(one.offset) })))
    } catch (e) {
      console.error(`${this.name}: commit before a rebalance: ${e.message}`)
    }
  }

  async commitOffsets(offsets) {
    const deadline = Date.now() + base.STEP_MS
    for (;;) {
      try {
        this.consumer.commitSync(offsets.map(one => ({ ...one, offset: Number(one.offset) })))
        return
      } catch (e) {
        // A rebalance under way has to be finished by polling; what it takes away is committed then.
        const codes = rdkafka.CODES.ERRORS
        const again = [codes.ERR_REBALANCE_IN_PROGRESS, codes.ERR_STALE_MEMBER_EPOCH].includes(e.code)
        if (!again || Date.now() > deadline) throw e
        await new Promise(resolve => setTimeout(resolve, POLL_MS))
        offsets = this.offsets()
        if (offsets.length === 0) return
      }
    }
  }

  async leave() {
    if (!this.polling) return
    await this.polling
    for (const told of this.rebalances.splice(0)) this.answer(told)
    await call(this.consumer, 'disconnect')
  }
}

module.exports = { Member }
