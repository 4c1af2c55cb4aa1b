// Prints the messages of a webhook of Longshore, after checking their signatures (Standard Webhooks 1.0). Node 20, no packages.
// WEBHOOK_SECRET=whsec_... PORT=8080 node receiver.mjs
/* oxlint-disable no-console -- a command for the terminal */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';

const KEY = Buffer.from((process.env.WEBHOOK_SECRET ?? '').replace(/^whsec_/, ''), 'base64');
const TOLERANCE_S = 300;
const seen = new Set(); // of a real receiver: in its database, in the transaction that acts on the message

function isGenuine(
  { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signatures = '' },
  body,
) {
  if (!(Math.abs(Date.now() / 1000 - Number(time)) <= TOLERANCE_S)) return false;
  const expected = createHmac('sha256', KEY).update(`${id}.${time}.`).update(body).digest();
  return signatures.split(' ').some((one) => {
    const given = Buffer.from(one.replace(/^v1,/, ''), 'base64');
    return one.startsWith('v1,') && given.length === expected.length && timingSafeEqual(given, expected);
  });
}

const receive = async (request, response) => {
  const body = await buffer(request);
  if (!isGenuine(request.headers, body)) return response.writeHead(401).end();
  const id = request.headers['webhook-id'];
  const { type, data } = JSON.parse(body);
  if (!seen.has(id)) console.log(type, data.run_id ?? '', data.state ?? '');
  seen.add(id);
  response.writeHead(204).end();
};

createServer((request, response) => void receive(request, response)).listen(
  Number(process.env.PORT ?? 8080),
  process.env.HOST ?? '127.0.0.1',
  function () {
    console.log(`listening on ${this.address().port}`);
  },
);
