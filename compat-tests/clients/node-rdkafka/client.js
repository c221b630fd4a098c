'use strict'
// What members and steps do alike with the client.

/** Calls one of the client's methods that ends in a callback. */
function call(client, method, ...parameters) {
  return new Promise((resolve, reject) => {
    client[method](...parameters, (error, result) => (error ? reject(error) : resolve(result)))
  })
}

/** Connects a client and sees to its log. */
async function connect(client) {
  client.on('event.error', error => console.error(`${client.name}: ${error.message}`))
  await call(client, 'connect', {})
  return client
}

/** A consumed message as a record of the record files. */
function record({ partition, offset, timestamp, key, value, headers = [] }) {
  const list = headers.flatMap(header => Object.entries(header))
  return { partition, offset: BigInt(offset), timestamp: timestamp ?? -1, key: key ?? null, value, headers: list }
}

module.exports = { call, connect, record }
