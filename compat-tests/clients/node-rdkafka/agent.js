'use strict'
// The agent of node-rdkafka (librdkafka): carries out the steps that the driver sends and reports what the client said. It
// decides nothing and checks nothing. The protocol is compat-tests/PROTOCOL.md.

const rdkafka = require('node-rdkafka')
const { bootstrap, serve } = require('../../nodeagent/protocol')
const { Member } = require('./member')
const { BrokerSteps } = require('./steps')

const brokers = bootstrap()

serve(
  {
    client: 'node-rdkafka',
    version: require('node-rdkafka/package.json').version.replace(/^v/, ''),
    // It makes a string of a header's value before it sends it, and an empty buffer of a null one that it has received.
    cannot: ['null-header-value', 'binary-header-value'],
    note: `librdkafka ${rdkafka.librdkafkaVersion}`,
  },
  new BrokerSteps(brokers).steps(),
  request => new Member(brokers, request),
  () => [],
)
