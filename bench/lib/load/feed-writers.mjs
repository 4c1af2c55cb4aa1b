// Writers of one topic, in a process of their own: each has a run and sends it one event after the other. Told what to
// do by one message; says when the time to measure begins, and at the end when each event was acknowledged.
import { once } from 'node:events';
import { bodyOf, sender } from './http.mjs';

/** Before the time to measure, in milliseconds: the processes of readers and writers are new. */
const WARM_UP_MS = 1_000;

const [{ url, key, topic, writers, seconds }] = await once(process, 'message');
const { send, close } = sender(url, key, writers);
const headers = { Prefer: 'return=minimal' };
const runs = await Promise.all(
  Array.from({ length: writers }, async () =>
    bodyOf(await send('POST', '/runs', { image: 'i', event_delivery: { topic } })),
  ),
);
const began = performance.now() + WARM_UP_MS;
const deadline = began + seconds * 1000;
setTimeout(() => process.send('measuring'), WARM_UP_MS);
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
process.send({ acknowledged, began: performance.timeOrigin + began, elapsed }, () => process.exit(0));
