// Walks a whole integration against the stand-alone test platform, with nothing
// but what Node 20 brings along:
//
//   go run ./cmd/dispensary fake          # prints the address of its control API
//   node examples/node/walk.mjs http://127.0.0.1:PORT/control
//
// A user authorizes the application on the platform's pages, the application
// creates a patient and a treatment plan, the patient orders, and the webhook of
// the order arrives and is verified. Every step prints one line; secrets and
// names are printed nowhere.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import { once } from 'node:events'

const controlURL = process.argv[2]
if (!controlURL) {
  console.error('usage: node walk.mjs CONTROL_URL')
  process.exit(2)
}

let steps = 0
const step = (text) => console.log(`${String(++steps).padStart(2)}. ${text}`)

// json sends a request and returns the decoded answer. What failed is named by
// its route and the platform's request id: an address may hold what a log must not.
async function json(route, url, { method = 'GET', headers = {}, body } = {}) {
  const response = await fetch(url, {
    method,
    headers: { ...headers, ...(body && { 'Content-Type': 'application/json' }) },
    body: body && JSON.stringify(body),
  })
  const answer = await response.json()
  if (!response.ok) {
    throw new Error(`${route}: status ${response.status}, request ${response.headers.get('x-request-id')}`)
  }
  return answer
}

const control = (method, path, body = {}) =>
  json(`control ${method}`, controlURL + path, { method, body: method === 'GET' ? undefined : body })

// ---------------------------------------------------------------- authorization

// flowOf reads the hidden field that every form of the authorization page has.
async function flowOf(response) {
  const found = /name="flow" value="([^"]+)"/.exec(await response.text())
  if (response.status !== 200 || !found) throw new Error(`authorization page: status ${response.status}`)
  return found[1]
}

// authorize does in the user's place what a browser would: sign in, consent, and
// follow the redirect back to the application, which has the code.
async function authorize(settings, user, state) {
  const page = new URL(settings.auth_url + '/oauth/authorize')
  page.search = new URLSearchParams({
    client_id: settings.client_id, redirect_uri: settings.redirect_uri, response_type: 'code', state,
  })
  const submit = (fields, headers = {}) =>
    fetch(page, { method: 'POST', redirect: 'manual', headers, body: new URLSearchParams(fields) })

  const signIn = await flowOf(await fetch(page))
  const signedIn = await submit({ flow: signIn, email: user.email, password: user.password, decision: 'signin' })
  const session = { Cookie: signedIn.headers.getSetCookie().map((cookie) => cookie.split(';')[0]).join('; ') }
  const consent = await flowOf(await fetch(new URL(signedIn.headers.get('location'), page), { headers: session }))
  const redirect = await submit({ flow: consent, decision: 'authorize' }, session)

  const back = new URL(redirect.headers.get('location'))
  if (back.origin + back.pathname !== settings.redirect_uri) throw new Error('the browser went somewhere else')
  if (back.searchParams.get('state') !== state) throw new Error('the state is not the one that was sent')
  return back.searchParams.get('code')
}

// --------------------------------------------------------------------- webhooks

// verify checks a signature over the bytes as they came, in constant time, and
// that it is not a replay.
function verify(header, body, secret, now = Date.now()) {
  const match = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(header ?? '')
  if (!match) return false
  const [, timestamp, signature] = match
  if (Math.abs(now / 1000 - Number(timestamp)) > 300) return false
  const wanted = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest()
  return timingSafeEqual(wanted, Buffer.from(signature, 'hex'))
}

// receive starts a webhook endpoint, and returns it with the next event it gets.
async function receive(settings) {
  const server = createServer()
  const event = new Promise((resolve, reject) => {
    server.on('request', async (request, response) => {
      const chunks = []
      for await (const chunk of request) chunks.push(chunk)
      const body = Buffer.concat(chunks)
      if (!verify(request.headers['svc-signature'], body, settings.webhook_secret)) {
        response.writeHead(401).end()
        reject(new Error('the webhook is not signed by the platform'))
        return
      }
      response.writeHead(200, { 'Content-Type': 'application/json' })
      response.end(JSON.stringify({ challenge: settings.challenge_token }))
      resolve(JSON.parse(body).event)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, event, url: `http://127.0.0.1:${server.address().port}/webhooks` }
}

// ------------------------------------------------------------------------- walk

async function walk() {
  const settings = await control('GET', '/settings')
  step('read the settings of the platform')

  const user = settings.users.find((u) => u.type === 'Practitioner')
  const code = await authorize(settings, user, crypto.randomUUID())
  step('a practitioner signed in, and authorized the application')

  const { oauth } = await json('POST /oauth/token', settings.base_url + '/oauth/token', {
    method: 'POST',
    body: {
      grant_type: 'authorization_code', code,
      client_id: settings.client_id, client_secret: settings.client_secret, redirect_uri: settings.redirect_uri,
    },
  })
  step(`exchanged the code for a token of ${oauth.expires_in} seconds`)

  // The first call with the clinic key activates the integration. Until then no webhook comes.
  const headers = { Authorization: `Bearer ${oauth.access_token}`, 'X-SVC-Clinic-Key': settings.clinic_key }
  const api = (method, route, path, body) => json(`${method} ${route}`, settings.base_url + path, { method, body, headers })

  const unique = crypto.randomUUID()
  const { patient } = await api('POST', '/clinic/patients', '/clinic/patients', {
    email: `walk-${unique}@example.com`, first_name: 'Robin', last_name: 'Walker',
    send_welcome_email: false, metadata: { id: unique },
  })
  step(`created the patient ${patient.id}`)

  const { products } = await api('GET', '/catalog/search/products', '/catalog/search/products?query=magnesium')
  const product = products.find((p) => p.status === 'available')
  const { treatment_plan: plan } = await api('POST', '/clinic/patients/<id>/treatment_plans', `/clinic/patients/${patient.id}/treatment_plans`, {
    practitioner_id: oauth.resource_owner.id,
    recommendations: [{
      variant_id: product.primary_variant.id, units_to_purchase: 2,
      dosage: { amount: '1', frequency: 'twice per day', duration: '30 days', format: 'capsule' },
    }],
  })
  step(`wrote the treatment plan ${plan.id}, which is ${plan.state}`)

  const receiver = await receive(settings)
  try {
    await control('PUT', '/webhook', { url: receiver.url, types: ['order.placed'] })
    step('registered a webhook endpoint for order.placed')

    const placed = await control('POST', `/patients/${patient.id}/orders`, { plan_ids: [plan.id] })
    step(`the patient ordered: ${placed.order.number}`)

    const event = await receiver.event
    if (event.id !== placed.event.id || event.type !== 'order.placed') throw new Error('another event arrived')
    step(`received ${event.type}, and verified its signature`)

    const outcome = await control('GET', `/events/${event.id}/delivery?timeout=10s`)
    if (!outcome.delivered) throw new Error(`not delivered: ${outcome.reason}`)
    step('the platform took the answer for a delivery')

    const { order } = await api('GET', '/clinic/orders/<id>', `/clinic/orders/${placed.order.id}`)
    step(`read the order back: ${order.line_items.length} line, for the plan ${order.treatment_plan_ids[0]}`)
  } finally {
    receiver.server.close()
    receiver.server.closeAllConnections()
  }
}

walk().catch((error) => {
  console.error(`walk: ${error.message}`)
  process.exitCode = 1
})
