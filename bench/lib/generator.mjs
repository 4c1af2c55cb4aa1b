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
const deadline = performance.now() + seconds * 1000;
const steps = await Promise.all(Array.from({ length: clients }, (_, n) => make({ ask, send, n, options })));
const began = performance.now();
const one = async (step, dueAt) => {
  const from = dueAt ?? performance.now();
  try {
    await step();
    latencies.push(performance.now() - from);
  } catch (error) {
    failures += 1;
    if (failures === 1) process.stderr.write(`${error.message}\n`);
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
  // Open loop: requests come at a rate of their own; what waits for a client counts as waiting.
  const under = [];
  for (let n = 0; performance.now() < deadline; n += 1) {
    const dueAt = began + (n * 1000) / rate;
    const pause = dueAt - performance.now();
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
    under.push(one(steps[n % steps.length], dueAt));
  }
  await Promise.all(under);
}
const elapsed = (performance.now() - began) / 1000;
close();
process.send({ latencies, failures, elapsed }, () => process.exit(0));
