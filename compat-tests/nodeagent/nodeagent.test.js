'use strict'
// What the Node.js agents share, without a client: node --test compat-tests/nodeagent/nodeagent.test.js

const assert = require('node:assert')
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const readline = require('node:readline')
const { test, beforeEach, afterEach } = require('node:test')

const { message, record } = require('./kafkajsapi')
const { Member } = require('./member')
const recordfile = require('./recordfile')

let folder
let file
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'nodeagent-'))
  file = path.join(folder, 'records')
})
afterEach(() => fs.rmSync(folder, { recursive: true }))

/** i: int32, q: int64, s: the text's or the buffer's bytes. */
function packed(...parts) {
  const buffers = parts.map(([kind, value]) => {
    if (kind === 's') return Buffer.from(value)
    const buffer = Buffer.alloc(kind === 'i' ? 4 : 8)
    if (kind === 'i') buffer.writeInt32BE(value)
    else buffer.writeBigInt64BE(BigInt(value))
    return buffer
  })
  return Buffer.concat(buffers)
}

function oneRecord(key, value) {
  return packed(['i', 0], ['q', 0], ['i', key.length], ['s', key], ['i', value.length], ['s', value], ['i', 0])
}

test('an input record has what stands in the file', () => {
  const full = packed(['i', 3], ['q', 1700], ['i', 2], ['s', 'ab'], ['i', 0], ['i', 2])
  const headers = packed(['i', 2], ['s', 'ü'], ['i', -1], ['i', 0], ['i', 1], ['s', [0xff]])
  const bare = packed(['i', -1], ['q', -1], ['i', -1], ['i', -1], ['i', 0])
  fs.writeFileSync(file, Buffer.concat([full, headers, bare]))
  const read = [...recordfile.read(file)].map(({ size, ...one }) => one)
  assert.deepStrictEqual(read, [
    {
      partition: 3,
      timestamp: 1700n,
      key: Buffer.from('ab'),
      value: Buffer.alloc(0),
      headers: [
        ['ü', null],
        ['', Buffer.from([0xff])],
      ],
    },
    { partition: -1, timestamp: -1n, key: null, value: null, headers: [] },
  ])
})

test('an empty input has no records', () => {
  fs.writeFileSync(file, '')
  assert.deepStrictEqual([...recordfile.read(file)], [])
  assert.deepStrictEqual([...recordfile.readLists(file, 10, 10)], [])
})

test('an input that ends inside a record is refused', () => {
  const whole = oneRecord('k', 'value')
  for (let length = 1; length < whole.length; length++) {
    fs.writeFileSync(file, whole.subarray(0, length))
    assert.throws(() => [...recordfile.read(file)], /ends inside a record/, `${length} bytes`)
  }
})

test('a record larger than what is read at once is read whole', () => {
  const value = Buffer.alloc(5 << 20, 'x')
  fs.writeFileSync(file, Buffer.concat([oneRecord('a', value), oneRecord('b', 'small')]))
  const read = [...recordfile.read(file)]
  assert.deepStrictEqual(read.map(({ value }) => value.length), [value.length, 5])
  assert.ok(read[0].value.equals(value))
})

test('lists end at so many records or bytes, and a larger record has its own', () => {
  const sizes = [10, 10, 10, 500, 10, 10]
  fs.writeFileSync(file, Buffer.concat(sizes.map((size, i) => oneRecord(`${i}`, Buffer.alloc(size)))))
  const lists = (records, bytes) => [...recordfile.readLists(file, records, bytes)].map(list => list.map(one => `${one.key}`).join(''))
  assert.deepStrictEqual(lists(2, 1 << 20), ['01', '23', '45'])
  assert.deepStrictEqual(lists(100, 160), ['012', '3', '45'])
})

test('output is appended, with offsets and timestamps of any kind of number', () => {
  const headers = [
    ['h', null],
    [Buffer.from('h'), Buffer.alloc(0)],
  ]
  for (const offset of [7, 8n, '9']) {
    const out = new recordfile.Writer(file)
    out.write({ partition: 1, offset, timestamp: '5', key: null, value: Buffer.from('v'), headers })
    out.close()
  }
  const want = [7, 8, 9].map(offset =>
    Buffer.concat([
      packed(['i', 1], ['q', offset], ['q', 5], ['i', -1], ['i', 1], ['s', 'v'], ['i', 2]),
      packed(['i', 1], ['s', 'h'], ['i', -1], ['i', 1], ['s', 'h'], ['i', 0]),
    ]),
  )
  assert.deepStrictEqual(fs.readFileSync(file), Buffer.concat(want))
})

test('the API of kafkajs: a message leaves out what is not given, a repeated header is a list', () => {
  const bare = { partition: -1, timestamp: -1n, key: null, value: null, headers: [] }
  assert.deepStrictEqual(message(bare), { key: null, value: null })
  const full = { partition: 0, timestamp: 0n, key: null, value: null, headers: [['h', Buffer.from('1')]] }
  assert.deepStrictEqual(message(full), { key: null, value: null, partition: 0, timestamp: '0', headers: { h: Buffer.from('1') } })
  const headers = { one: Buffer.from('1'), two: [Buffer.from('2'), null] }
  assert.deepStrictEqual(record(4, { offset: '12', timestamp: '3', key: null, value: null, headers }), {
    partition: 4,
    offset: 12n,
    timestamp: '3',
    key: null,
    value: null,
    headers: [
      ['one', Buffer.from('1')],
      ['two', Buffer.from('2')],
      ['two', null],
    ],
  })
})

/** A client of two partitions that hands over one record of each, again and again while it is read from. */
class Fake extends Member {
  commits = []
  left = 0

  async open() {
    this.assignment = [1, 0]
    this.position = new Map(this.assignment.map(partition => [partition, 0n]))
    this.crash = null
  }

  async reading() {
    while (this.demand) {
      for (const [partition, offset] of this.position) {
        this.position.set(partition, offset + 1n)
        this.write({ partition, offset, timestamp: 0, key: null, value: null, headers: [] })
      }
      this.drained()
      await null
    }
  }

  async commitOffsets(offsets) {
    this.commits.push(offsets.map(({ partition, offset }) => `${partition}:${offset}`).join(' '))
  }

  async leave() {
    this.left++
  }
}

async function opened() {
  const member = new Fake({ consumer: 'A', topic: 't' })
  await member.open()
  return member
}

test('what was written is committed', async () => {
  const member = await opened()
  await member.commit()
  assert.deepStrictEqual(await member.consume({ count: 4, out: file, timeout_ms: 5000 }), { count: 4, assignment: [0, 1] })
  await member.commit()
  assert.deepStrictEqual(member.commits, ['1:2 0:2'])
})

test('what is taken away is committed no more', async () => {
  const member = await opened()
  await member.consume({ count: 2, out: file, timeout_ms: 5000 })
  assert.deepStrictEqual(member.take([1, 5]), [{ topic: 't', partition: 1, offset: 1n }])
  await member.commit()
  assert.deepStrictEqual(member.take(), [{ topic: 't', partition: 0, offset: 1n }])
  await member.commit()
  assert.deepStrictEqual(member.commits, ['0:1'])
})

test('a request ends with fewer records when its time is up', async () => {
  const member = await opened()
  member.reading = () => {}
  assert.deepStrictEqual((await member.consume({ count: 1, out: file, timeout_ms: 5 })).count, 0)
  assert.strictEqual(fs.statSync(file).size, 0)
})

test('a client that gives up fails the request at hand and all later ones', async () => {
  const member = new Fake({ consumer: 'A', topic: 't' })
  await assert.rejects(member.consume({ count: 0 }), /could not be opened/)
  await member.open()
  member.reading = () => member.failed(new Error('gone'))
  await assert.rejects(member.consume({ count: 1, out: file }), /gone/)
  await assert.rejects(member.commit(), /gone/)
})

test('closing leaves the group once and commits nothing', async () => {
  const member = await opened()
  await member.consume({ count: 2, out: file, timeout_ms: 5000 })
  await Promise.all([member.close(), member.close()])
  assert.deepStrictEqual([member.left, member.commits], [1, []])
})

/** Runs an agent of these lines, and returns what it answers to the requests, and its exit code. */
async function agent(lines, requests) {
  const protocol = JSON.stringify(require.resolve('./protocol'))
  const source = path.join(folder, 'agent.js')
  fs.writeFileSync(source, `const { Unsupported, bootstrap, serve } = require(${protocol})\n${lines}`)
  const flags = ['--bootstrap', 'host:1', '--dir', folder]
  const child = spawn(process.execPath, [source, ...flags], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(requests.map(one => JSON.stringify(one) + '\n').join(''))
  const answers = []
  for await (const line of readline.createInterface({ input: child.stdout })) answers.push(JSON.parse(line))
  const code = child.exitCode ?? (await new Promise(resolve => child.once('exit', resolve)))
  return { answers, code }
}

test('requests of one consumer are answered in their order, others beside them', async () => {
  const lines = `
    console.error = () => {}
    const wait = ms => new Promise(resolve => setTimeout(resolve, ms))
    class Member {
      steps = Promise.resolve()
      async open() { await wait(50) }
      async consume() { console.log('not an answer'); return { count: 1 } }
      async commit() { throw new Error('no') }
      async close() {}
    }
    const steps = { quick: async () => ({ at: bootstrap() }), lacking: async () => { throw new Unsupported('no call') } }
    serve({ client: 'c' }, steps, () => new Member(), () => wait(200))`
  const { answers, code } = await agent(lines, [
    { id: 1, step: 'consumer-open', consumer: 'A' },
    { id: 2, step: 'consume', consumer: 'A' },
    { id: 3, step: 'quick' },
    { id: 4, step: 'lacking' },
    { id: 5, step: 'commit', consumer: 'A' },
    { id: 6, step: 'commit', consumer: 'B' },
    { id: 7, step: 'dance' },
  ])
  const [hello, ...rest] = answers
  assert.deepStrictEqual(hello, { hello: { client: 'c' } })
  assert.deepStrictEqual(rest.filter(({ id }) => [1, 2, 5].includes(id)), [
    { id: 1, ok: true },
    { id: 2, ok: true, count: 1 },
    { id: 5, ok: false, error: 'Error: no' },
  ])
  assert.deepStrictEqual(rest.filter(({ id }) => [3, 4, 7].includes(id)), [
    { id: 3, ok: true, at: 'host:1' },
    { id: 4, unsupported: 'no call' },
    { id: 7, unsupported: 'this agent has no step dance' },
  ])
  assert.match(rest.find(({ id }) => id === 6).error, /no consumer B is open/)
  assert.ok(rest.findIndex(({ id }) => id === 3) < rest.findIndex(({ id }) => id === 1), 'the step waited for the consumer')
  assert.strictEqual(code, 0)
})
