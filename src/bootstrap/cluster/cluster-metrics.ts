import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import { standardOutput } from '@longshore/common/line-output';
import { SharedReading } from '../../common/shared-reading.js';
import { measureLog } from '../../common/metrics/process-metrics.js';
import type { Counts } from './messages.js';

/** Kinds of metrics that are kept when their process ends. */
const CUMULATIVE_TYPES: ReadonlySet<string> = new Set(['counter', 'histogram']);

export interface Counted {
  readonly isListening: boolean;
  /** The last known counts. */
  readonly counts: Counts;
  /** Asks a process that listens for its counts. Resolves in any case, at the latest after a second. */
  recount(): Promise<void>;
}

/**
 * Adds up the metrics of all server processes. A process that does not answer in time counts as it last did, and one that
 * has ended with its last counters: Prometheus would take a total that decreases for a restart, and count the rest of it
 * again.
 */
export class ClusterMetrics {
  readonly #own = new Registry();
  readonly #replacements: Counter;
  /** Counters of processes that have ended: their sum up to the last scrape, and those since then. */
  readonly #ended: Counts[] = [];
  readonly #reading = new SharedReading(() => this.#read());

  /** @param processes those that have not ended */
  constructor(private readonly processes: ReadonlySet<Counted>) {
    const registers = [this.#own];
    measureLog(this.#own, standardOutput);
    const gauge: Gauge = new Gauge({
      name: 'longshore_server_processes',
      help: 'Server processes that answer requests',
      registers,
      collect: (): void => gauge.set([...processes].filter(({ isListening }) => isListening).length),
    });
    this.#replacements = new Counter({
      name: 'longshore_server_process_replacements_total',
      help: 'Server processes that ended and were replaced',
      registers,
    });
  }

  countReplacement(): void {
    this.#replacements.inc();
  }

  /** Keeps the counters of a process that ended, and was removed from the set in the same turn. */
  end({ counts }: Counted): void {
    this.#ended.push(counts.filter(({ type }) => CUMULATIVE_TYPES.has(String(type))));
  }

  /** @returns Prometheus text; concurrent callers share one result */
  text(): Promise<string> {
    return this.#reading.newest();
  }

  async #read(): Promise<string> {
    await Promise.all([...this.processes].map((process) => process.recount()));
    const own = await this.#own.getMetricsAsJSON();
    const ended = [...this.#ended];
    this.#ended.splice(0, ended.length, await sum(ended).getMetricsAsJSON());
    // No await from here on: a process that ends meanwhile must be in exactly one of the two lists.
    return sum([own, ...[...this.processes].map(({ counts }) => counts), ...this.#ended]).metrics();
  }
}

function sum(all: readonly Counts[]): Registry {
  return AggregatorRegistry.aggregate(all.map((counts) => [...counts]));
}
