import { monitorEventLoopDelay, type IntervalHistogram } from 'node:perf_hooks';
import { Gauge, type Registry, Counter } from 'prom-client';
import type { LineOutput } from '@longshore/common/line-output';
import { monotonicMs } from '../monotonic-ms.js';

/** Nanoseconds per second. */
const NANO = 1e9;

const PREFIX = 'longshore_nodejs_eventloop_lag_';

const STATISTICS = [
  ['min', 'min', 'The minimum recorded event loop delay.', ({ min }) => min],
  ['max', 'max', 'The maximum recorded event loop delay.', ({ max }) => max],
  ['mean', 'average', 'The mean of the recorded event loop delays.', ({ mean }) => mean],
  ['stddev', 'average', 'The standard deviation of the recorded event loop delays.', ({ stddev }) => stddev],
  [
    'p50',
    'average',
    'The 50th percentile of the recorded event loop delays.',
    (delays) => delays.percentile(50),
  ],
  [
    'p90',
    'average',
    'The 90th percentile of the recorded event loop delays.',
    (delays) => delays.percentile(90),
  ],
  [
    'p99',
    'average',
    'The 99th percentile of the recorded event loop delays.',
    (delays) => delays.percentile(99),
  ],
] as const satisfies readonly (readonly [
  name: string,
  aggregator: 'min' | 'max' | 'average',
  help: string,
  read: (delays: IntervalHistogram) => number,
])[];

/**
 * Registers the metrics of the lag of the event loop, under the names of prom-client, whose own are NaN where no delay was
 * sampled since the last scrape. These keep their values then.
 * @param delays what was sampled since the last scrape; it is reset by each scrape that uses it
 */
export function measureEventLoopLag(registry: Registry, delays: IntervalHistogram): void {
  const registers = [registry];
  const gauges = STATISTICS.map(([name, aggregator, help, read]) => {
    return { gauge: new Gauge({ name: `${PREFIX}${name}_seconds`, help, aggregator, registers }), read };
  });
  const lag: Gauge = new Gauge({
    name: `${PREFIX}seconds`,
    help: 'Lag of event loop in seconds.',
    aggregator: 'average',
    registers,
    collect: () => {
      const start = monotonicMs();
      setImmediate(() => lag.set((monotonicMs() - start) / 1000));
      if (delays.count === 0) return;
      for (const { gauge, read } of gauges) gauge.set(read(delays) / NANO);
      delays.reset();
    },
  });
}

/** Starts to sample delays, each time after so many milliseconds. */
export function sampleDelays(everyMs: number): IntervalHistogram {
  const delays = monitorEventLoopDelay({ resolution: everyMs });
  delays.enable();
  return delays;
}

/** Adds the metrics of this process's log. */
export function measureLog(registry: Registry, output: Pick<LineOutput, 'dropped' | 'waitingBytes'>): void {
  const registers = [registry];
  const dropped: Counter = new Counter({
    name: 'longshore_log_lines_dropped_total',
    help: 'Log lines dropped because standard output could not be written',
    registers,
    collect: (): void => {
      dropped.reset();
      dropped.inc(output.dropped);
    },
  });
  const waiting: Gauge = new Gauge({
    name: 'longshore_log_waiting_bytes',
    help: 'Bytes of log lines that wait until standard output can be written',
    registers,
    collect: (): void => waiting.set(output.waitingBytes),
  });
}
