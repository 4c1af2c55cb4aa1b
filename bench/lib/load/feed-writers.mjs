// Writers of one topic, in a process of their own: each has a run and sends it one event after the other. Told what to
// do by one message; answers when each event was acknowledged.
import { once } from 'node:events';
import { bodyOf, sender } from './http.mjs';

const [{ url, key, topic, writers, seconds }] = await once(process, 'message');
const { send, close } = sender(url, key, writers);
const headers = { Prefer: 'return=minimal' };
const runs = await Promise.all(
  Array.from({ length: writers }, async () =>
    bodyOf(await send('POST', '/runs', { image: 'i', event_delivery: { topic } })),
  ),
);
const began = performance.now();
const deadline = began + seconds * 1000;
const acknowledged = await Promise.all(
  runs.map(async ({ id }, writer) => {
    const times = [];
    while (performance.now() < deadline) {
      // The number tells writer and event.
      const msg = times.length * writers + writer;
      const { status, text } = await send('POST', `/runs/${id}/events`, { type: 'NOTE', msg }, headers);
      if (status !== 204) throw new Error(`an event was answered ${status}: ${text()}`);
      times.push(performance.timeOrigin + performance.now());
    }
    return Float64Array.from(times);
  }),
);
const elapsed = (performance.now() - began) / 1000;
close();
process.send({ acknowledged, elapsed }, () => process.exit(0));
