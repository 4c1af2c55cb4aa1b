// Many clients at once, in a process of their own: open streams, or workers. Told what to be by one message; says when
// all of them are there, and stays until it is ended.
import { once } from 'node:events';
import { openStreams } from './event-streams.mjs';
import { bodyOf, sender } from './http.mjs';

const TOPICS = 50;
const CONNECTIONS = 64;
/** Streams that are opened at a time. */
const AT_ONCE = 250;

const [{ url, key, kind, count }] = await once(process, 'message');
if (kind === 'streams') {
  for (let opened = 0; opened < count; opened += AT_ONCE) {
    const topics = Array.from({ length: Math.min(AT_ONCE, count - opened) }, (_, n) => `idle-${n % TOPICS}`);
    await openStreams(url, key, topics);
  }
} else {
  const { send } = sender(url, key, CONNECTIONS);
  let next = 0;
  const beat = async () => {
    while (next < count) {
      const worker = `crowd-${next}`;
      next += 1;
      const resources = { cpu_cores: 8, ram_mb: 16_384, gpus: [{ id: 0, vram_mb: 24_000 }] };
      const body = { worker_id: worker, resources, tags: ['a', 'b'], running_ops: [] };
      bodyOf(await send('POST', '/workers/heartbeat', body));
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, beat));
}
process.send('ready');
setInterval(() => undefined, 60_000);
