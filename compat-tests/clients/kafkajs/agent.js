'use strict'
// The agent of kafkajs: carries out the steps that the driver sends and reports what the client said. It decides nothing
// and checks nothing. The protocol is compat-tests/PROTOCOL.md.

const { Kafka, logLevel } = require('kafkajs')
const { Member } = require('./member')
const { bootstrap, serve } = require('../../nodeagent/protocol')
const { BrokerSteps } = require('./steps')

const kafka = new Kafka({
  clientId: 'compat-kafkajs',
  brokers: [bootstrap()],
  logLevel: logLevel.WARN,
  logCreator: () => ({ namespace, log: { message, ...more } }) => {
    console.error(`[${namespace}] ${message} ${JSON.stringify(more)}`)
  },
})
const broker = new BrokerSteps(kafka)

serve(
  {
    client: 'kafkajs',
    version: require('kafkajs/package.json').version,
    // It hands headers over as one object: the order of repeated keys among others is lost. It fails on a null header.
    cannot: ['null-header-value', 'repeated-header'],
    note: 'its assignor is round robin, the only one it has',
  },
  broker.steps(),
  request => new Member(kafka, request),
  () => broker.close(),
)
