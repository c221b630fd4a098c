'use strict'
// The agent of @confluentinc/kafka-javascript (librdkafka), in its API that is like that of kafkajs: carries out the steps
// that the driver sends and reports what the client said. It decides nothing and checks nothing. The protocol is
// compat-tests/PROTOCOL.md.

const { KafkaJS, librdkafkaVersion } = require('@confluentinc/kafka-javascript')
const { bootstrap, serve } = require('../../nodeagent/protocol')
const { Member } = require('./member')
const { BrokerSteps } = require('./steps')

const kafka = new KafkaJS.Kafka({
  kafkaJS: { clientId: 'compat-confluent-javascript', brokers: [bootstrap()], logLevel: KafkaJS.logLevel.WARN },
})
const broker = new BrokerSteps(kafka)

serve(
  {
    client: '@confluentinc/kafka-javascript',
    version: require('@confluentinc/kafka-javascript/package.json').version,
    // It takes and hands over headers as one object: the order of repeated keys among others is lost. It refuses a null
    // header and makes an empty buffer of one that it has received.
    cannot: ['null-header-value', 'repeated-header'],
    note: `librdkafka ${librdkafkaVersion}; its commitOffsets waits for no answer, so what is committed is asked for`,
  },
  broker.steps(),
  request => new Member(kafka, request),
  () => broker.close(),
)
