'use strict'
// The agent of @platformatic/kafka: carries out the steps that the driver sends and reports what the client said. It decides
// nothing and checks nothing. The protocol is compat-tests/PROTOCOL.md.

const path = require('node:path')
const { bootstrap, serve } = require('../../nodeagent/protocol')
const { Member } = require('./member')
const { BrokerSteps } = require('./steps')

const options = { clientId: 'compat-platformatic', bootstrapBrokers: [bootstrap()], timeout: 30000, retries: 20, retryDelay: 100 }
// Its package.json is none of its exports.
const { version } = require(path.join(path.dirname(require.resolve('@platformatic/kafka')), '../package.json'))
const broker = new BrokerSteps(options)

serve(
  {
    client: '@platformatic/kafka',
    version,
    cannot: [],
    note: `Node.js ${process.version}; its assignors are round robin and cooperative sticky`,
  },
  broker.steps(),
  request => new Member(options, request),
  () => broker.close(),
)
