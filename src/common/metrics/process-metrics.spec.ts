import assert from 'node:assert/strict';
import { createHistogram } from 'node:perf_hooks';
import { describe, it } from 'vitest';
import { Registry } from 'prom-client';
import { measureEventLoopLag } from './process-metrics.js';

describe('the lag of the event loop', () => {
  it('keeps its values where a scrape finds no sample, and forgets samples that were read', async () => {
    const registry = new Registry();
    const delays = Object.assign(createHistogram(), { enable: () => true, disable: () => true });
    measureEventLoopLag(registry, delays);
    const read = async (statistic: string): Promise<number | undefined> =>
      (await registry.getSingleMetric(`longshore_nodejs_eventloop_lag_${statistic}_seconds`)?.get())
        ?.values[0]?.value;
    const scrape = async (): Promise<(number | undefined)[]> => {
      await registry.metrics();
      return Promise.all(['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'].map(read));
    };
    assert.deepEqual(await scrape(), Array(7).fill(0));
    delays.record(1e9);
    const first = await scrape();
    assert.ok(
      first.slice(0, 3).every((value) => value !== undefined && Math.abs(value - 1) < 0.01),
      String(first),
    );
    assert.deepEqual(await scrape(), first);
    delays.record(3e9);
    assert.ok(Math.abs(((await scrape())[0] ?? 0) - 3) < 0.03);
  });
});
