// A webhook endpoint with nothing but what Node 20 brings along:
//
//   export WEBHOOK_SECRET=… WEBHOOK_CHALLENGE=…
//   node examples/node/receiver.mjs 3000
//   dispensary check http://127.0.0.1:3000/webhooks --secret-env WEBHOOK_SECRET --challenge-env WEBHOOK_CHALLENGE

import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const { WEBHOOK_SECRET: secret, WEBHOOK_CHALLENGE: challenge } = process.env
if (!secret || !challenge) {
  console.error('WEBHOOK_SECRET and WEBHOOK_CHALLENGE are required')
  process.exit(2)
}

const tolerance = 300 // seconds
const maxBody = 2 << 20 // bytes

// A program keeps events in a table with this unique key, in the transaction that handles them.
const stored = new Map()
const store = (event) => {
  const key = `${event.id}/${event.integration_id ?? ''}`
  if (!stored.has(key)) stored.set(key, event)
}

// verify checks the bytes as they arrived. During a rotation the header has two signatures.
function verify(header, body) {
  const [, timestamp, rest] = /^t=(\d+),(.*)$/.exec(header ?? '') ?? []
  if (!timestamp || Math.abs(Date.now() / 1000 - Number(timestamp)) > tolerance) return false
  const wanted = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest()
  return rest.split(',').some((part) => {
    const [, digits] = /^v1=([0-9a-f]{64})$/.exec(part) ?? []
    return digits !== undefined && timingSafeEqual(wanted, Buffer.from(digits, 'hex'))
  })
}

// read returns the body, or null if it is too large.
async function read(request) {
  const chunks = []
  let length = 0
  for await (const chunk of request) {
    length += chunk.length
    if (length > maxBody) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

// parse returns the event of a body, or undefined.
function parse(body) {
  try {
    const event = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))?.event
    return event?.id && event?.type ? event : undefined
  } catch {
    return undefined
  }
}

async function receive(request, response) {
  if (request.method !== 'POST') return response.writeHead(405, { Allow: 'POST' }).end()
  const body = await read(request)
  if (body === null) return response.writeHead(413, { Connection: 'close' }).end()
  if (!verify(request.headers['svc-signature'], body)) return response.writeHead(401).end()
  if (body.length > 0) { // an empty body is a probe
    const event = parse(body)
    if (!event) return response.writeHead(400).end()
    store(event)
  }
  response.writeHead(200, { 'Content-Type': 'application/json' })
  response.end(JSON.stringify({ challenge }))
}

const server = createServer((request, response) => {
  receive(request, response).catch(() => response.destroy()) // the sender is gone
})
server.requestTimeout = 30_000
server.listen(Number(process.argv[2] ?? 3000), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}/webhooks`)
})
