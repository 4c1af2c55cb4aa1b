// Readers of one topic, in a process of their own, half of them by stream and half by long poll. Told what to read by
// one message, and by another which events there are to be; answers what was lost or doubled, and when events came.
import { once } from 'node:events';
import { openStreams } from './event-streams.mjs';
import { sender } from './http.mjs';

/** Of so many events one is timed by every reader. */
const TIMED = 16;
/** So long nothing may come before the rest counts as lost, in milliseconds. */
const PATIENCE_MS = 20_000;
const MARK = Buffer.from('"msg":');
const NEXT_CURSOR = Buffer.from('"next_cursor":"');
const ZERO = 0x30;

const [{ url, key, topic, writers, streams, polls }] = await once(process, 'message');

/** What one reader has got. */
class Got {
  total = 0;
  doubled = 0;
  #seen = new Uint8Array(1 << 16);
  /** Pairs of an event's number and the time at which it came. */
  timed = [];

  take(number) {
    if (number >= this.#seen.length) {
      const larger = new Uint8Array(2 ** Math.ceil(Math.log2(number + 1)));
      larger.set(this.#seen);
      this.#seen = larger;
    }
    if (this.#seen[number] === 1) this.doubled += 1;
    else this.total += 1;
    this.#seen[number] = 1;
    if (Math.floor(number / writers) % TIMED === 0)
      this.timed.push(number, performance.timeOrigin + performance.now());
  }
}

let lastAt = performance.now();
const over = new AbortController();
const readers = Array.from({ length: streams + polls }, () => new Got());
const rests = Array.from({ length: streams }, () => Buffer.alloc(0));

/** Takes the numbers of the events in these bytes; answers the bytes that may hold the beginning of another. */
function takeAll(got, bytes) {
  lastAt = performance.now();
  let from = 0;
  for (;;) {
    const at = bytes.indexOf(MARK, from);
    if (at === -1) return bytes.subarray(Math.max(from, bytes.length - MARK.length + 1));
    let end = at + MARK.length;
    let number = 0;
    let isNumber = false;
    while (end < bytes.length && bytes[end] >= ZERO && bytes[end] <= ZERO + 9) {
      number = number * 10 + bytes[end] - ZERO;
      end += 1;
      isNumber = true;
    }
    if (end === bytes.length) return bytes.subarray(at);
    if (isNumber) got.take(number);
    from = end;
  }
}

const open = await openStreams(
  url,
  key,
  Array.from({ length: streams }, () => topic),
  (n, bytes) => {
    const rest = rests[n];
    rests[n] = takeAll(readers[n], rest.length === 0 ? bytes : Buffer.concat([rest, bytes]));
  },
);
const { send, close } = sender(url, key, polls);
const path = `/feed?topic=${encodeURIComponent(topic)}&limit=500&wait=30`;
for (const got of readers.slice(streams)) void poll(got);

async function poll(got) {
  let after = '';
  while (!over.signal.aborted) {
    const answer = await send('GET', `${path}${after}`).catch((error) => {
      if (!over.signal.aborted) throw error;
    });
    if (over.signal.aborted) return;
    if (answer.status !== 200) throw new Error(`a poll was answered ${answer.status}: ${answer.text()}`);
    // Parsing the JSON would need more CPU than the service does.
    const bytes = answer.bytes();
    takeAll(got, bytes);
    const at = bytes.lastIndexOf(NEXT_CURSOR);
    if (at === -1) continue;
    const start = at + NEXT_CURSOR.length;
    after = `&after=${bytes.toString('latin1', start, bytes.indexOf('"', start))}`;
  }
}

process.send('ready');
const [{ total }] = await once(process, 'message');
while (readers.some((got) => got.total < total) && performance.now() - lastAt < PATIENCE_MS) {
  await new Promise((resolve) => setTimeout(resolve, 20));
}
over.abort();
open.close();
close();
const lost = readers.reduce((sum, got) => sum + total - got.total, 0);
const doubled = readers.reduce((sum, got) => sum + got.doubled, 0);
process.send({ lost, doubled, timed: readers.map(({ timed }) => Float64Array.from(timed)) }, () =>
  process.exit(0),
);
