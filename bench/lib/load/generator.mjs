// The load generator: a process of its own, so that it does not share an event loop with what it drives. It is told
// what to do by one message and answers with one.
import { once } from 'node:events';
import { bodyOf, sender } from './http.mjs';
import { SCENARIOS } from './scenarios.mjs';

const [{ url, key, scenario, clients, seconds, rate, options }] = await once(process, 'message');
const { send, close } = sender(url, key, clients);
const ask = async (...request) => bodyOf(await send(...request));
const make = SCENARIOS[scenario];
const latencies = [];
let failures = 0;
let firstFailure;
let units = 0;
const steps = await Promise.all(Array.from({ length: clients }, (_, n) => make({ ask, send, n, options })));
const began = performance.now();
const deadline = began + seconds * 1000;
const one = async (step, dueAt) => {
  const from = dueAt ?? performance.now();
  try {
    const done = await step();
    units += typeof done === 'number' ? done : 1;
    latencies.push(performance.now() - from);
  } catch (error) {
    failures += 1;
    firstFailure ??= error.message;
  }
};
if (rate === undefined) {
  // Closed loop: each client sends its next request when the last is answered.
  await Promise.all(
    steps.map(async (step) => {
      while (performance.now() < deadline) await one(step);
    }),
  );
} else {
  // Open loop: steps begin at a rate of their own; what waits for a client that is busy counts as waiting.
  const free = [...steps];
  const due = [];
  const under = new Set();
  const work = async (step) => {
    for (let dueAt = due.shift(); dueAt !== undefined; dueAt = due.shift()) await one(step, dueAt);
    free.push(step);
  };
  for (let n = 0; ; n += 1) {
    const dueAt = began + (n * 1000) / rate;
    if (dueAt >= deadline) break;
    const pause = dueAt - performance.now();
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
    due.push(dueAt);
    const step = free.pop();
    if (step === undefined) continue;
    const working = work(step).finally(() => under.delete(working));
    under.add(working);
  }
  await Promise.all(under);
}
const elapsed = (performance.now() - began) / 1000;
await Promise.all(steps.map((step) => step.finish?.()));
close();
process.send({ latencies: Float64Array.from(latencies), units, failures, firstFailure, elapsed }, () =>
  process.exit(0),
);
