'use strict'
// The agent protocol on standard input and output: requests of one consumer in their order, all others in theirs.

const readline = require('node:readline')

/** Thrown by a step that the client has no call for. */
class Unsupported extends Error {}

const answers = process.stdout
const line = message => answers.write(JSON.stringify(message) + '\n')

async function answer(request, step) {
  try {
    const results = await step(request)
    line({ id: request.id, ok: true, ...results })
  } catch (e) {
    if (e instanceof Unsupported) {
      line({ id: request.id, unsupported: e.message })
      return
    }
    console.error(`step failed: ${JSON.stringify(request)}`, e)
    line({ id: request.id, ok: false, error: `${e.name}: ${e.message}` })
  }
}

/** The --bootstrap that every agent is started with. */
function bootstrap() {
  const flags = process.argv.slice(2)
  const at = flags.indexOf('--bootstrap')
  if (at < 0 || at + 1 >= flags.length) throw new Error('--bootstrap HOST:PORT is missing')
  return flags[at + 1]
}

const unknown = async ({ step }) => {
  throw new Unsupported(`this agent has no step ${step}`)
}

/**
 * Answers requests until the end of standard input, and then ends the process. steps maps names to functions of the
 * request, newMember makes the member that a consumer-open request asks for, close lets go of the rest.
 */
function serve(hello, steps, newMember, close) {
  // Whatever a library prints goes to the log.
  for (const method of ['log', 'info', 'debug']) console[method] = console.error
  line({ hello })

  const members = new Map()
  let others = Promise.resolve()
  const memberStep = request => {
    const { consumer: name, step } = request
    let member = members.get(name)
    if (step === 'consumer-open') {
      if (member) return answer(request, async () => { throw new Error(`consumer ${name} is open already`) })
      member = newMember(request)
      members.set(name, member)
      member.steps = answer(request, r => member.open(r))
      return
    }
    if (!member) return answer(request, async () => { throw new Error(`no consumer ${name} is open`) })
    if (step === 'consumer-close') members.delete(name)
    const run = { consume: r => member.consume(r), commit: () => member.commit(), 'consumer-close': () => member.close() }[step]
    member.steps = member.steps.then(() => answer(request, run ?? unknown))
  }

  const input = readline.createInterface({ input: process.stdin, crlfDelay: Infinity })
  input.on('line', text => {
    if (text.trim() === '') return
    const request = JSON.parse(text)
    if (request.consumer !== undefined) memberStep(request)
    else others = others.then(() => answer(request, steps[request.step] ?? unknown))
  })
  input.on('close', async () => {
    // A client that cannot be closed in time must not keep the process alive.
    setTimeout(() => process.exit(0), 8000)
    await Promise.allSettled([...members.values()].map(member => member.close()).concat(close()))
    process.exit(0)
  })
}

module.exports = { Unsupported, bootstrap, serve }
