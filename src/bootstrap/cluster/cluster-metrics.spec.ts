import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Counts } from './messages.js';
import { ClusterMetrics, type Counted } from './cluster-metrics.js';

/** A process with real counts that can be made to fall silent. */
class CountingProcess implements Counted {
  readonly #registry = new Registry();
  readonly #requests = new Counter({ name: 'requests_total', help: 'r', registers: [this.#registry] });
  readonly #open = new Gauge({ name: 'open', help: 'o', registers: [this.#registry] });
  readonly #seconds = new Histogram({
    name: 'seconds',
    help: 's',
    buckets: [1, 10],
    registers: [this.#registry],
  });
  readonly isListening = true;
  counts: Counts = [];
  isSilent = false;
  asked = 0;

  constructor(requests: number, open: number) {
    this.work(requests);
    this.#open.set(open);
  }

  work(requests: number): void {
    for (let n = 0; n < requests; n += 1) {
      this.#requests.inc();
      this.#seconds.observe(5);
    }
  }

  async recount(): Promise<void> {
    this.asked += 1;
    // What comes from another process is a copy.
    if (!this.isSilent) this.counts = structuredClone(await this.#registry.getMetricsAsJSON());
  }
}

function valuesOf(text: string): Record<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return Object.fromEntries(lines.map((line) => [line.replace(/ \S+$/, ''), Number(/\S+$/.exec(line)?.[0])]));
}

async function read(metrics: ClusterMetrics): Promise<Record<string, number>> {
  return valuesOf(await metrics.text());
}

describe('the metrics of several processes', () => {
  it('go without a process that has never answered', async () => {
    const [silent, other] = [new CountingProcess(3, 1), new CountingProcess(4, 2)];
    silent.isSilent = true;
    const values = await read(new ClusterMetrics(new Set([silent, other])));
    assert.equal(values['requests_total'], 4);
  });

  it('never go back while processes end in the middle of scrapes', async () => {
    const live = new Set([new CountingProcess(1, 1), new CountingProcess(1, 1)]);
    const metrics = new ClusterMetrics(live);
    let last = 0;
    for (let round = 0; round < 100; round += 1) {
      const reading = read(metrics);
      for (let turns = round % 12; turns > 0; turns -= 1) await Promise.resolve();
      const [ended] = live;
      if (ended !== undefined && round % 3 === 0) {
        live.delete(ended);
        metrics.end(ended);
        live.add(new CountingProcess(1, 1));
      }
      const total = (await reading)['requests_total'] ?? 0;
      assert.ok(total >= last, `round ${round}: ${last} became ${total}`);
      assert.ok(total <= 2 + round, `round ${round}: something was counted twice: ${total}`);
      last = total;
      await read(metrics);
    }
    assert.ok(last > 20, String(last));
  });

  it('are collected once for scrapes at the same time', async () => {
    const process = new CountingProcess(1, 1);
    const metrics = new ClusterMetrics(new Set([process]));
    const texts = await Promise.all([metrics.text(), metrics.text(), metrics.text()]);
    assert.equal(process.asked, 1);
    assert.equal(new Set(texts).size, 1);
  });
});
