import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import { standardOutput } from '@longshore/common/line-output';
import { withTimeout } from '@longshore/common/timeout';
import { measureLog } from '../../common/logging/log-metrics.js';
import type { Counts } from './ipc-channel.js';

/** Kinds of metrics that are kept when their process ends. */
const CUMULATIVE_TYPES: ReadonlySet<string> = new Set(['counter', 'histogram']);

export interface Counted {
  /** Reads the counts of the process; may never resolve. */
  count(): Promise<Counts>;
}

/**
 * Adds up the metrics of all server processes. Processes that have ended or do not answer in time count with their last
 * known counters, so that no total decreases.
 */
export class ClusterMetrics {
  readonly #own = new Registry();
  readonly #replacements: Counter;
  readonly #last = new Map<Counted, Counts>();
  #ended: Counts = [];
  #folding: Promise<void> = Promise.resolve();
  #reading: Promise<string> | undefined;

  /**
   * @param processes those that listen
   * @param timeoutMs of the counts of one process
   */
  constructor(
    private readonly processes: () => readonly Counted[],
    private readonly timeoutMs: number,
  ) {
    const registers = [this.#own];
    measureLog(this.#own, standardOutput);
    const gauge: Gauge = new Gauge({
      name: 'longshore_server_processes',
      help: 'Server processes that answer requests',
      registers,
      collect: (): void => gauge.set(processes().length),
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

  /** Stores the last known counts of a process. */
  remember(process: Counted, counts: Counts): void {
    this.#last.set(process, counts);
  }

  /** Keeps the counters of a process that ended. */
  end(process: Counted): void {
    const last = this.#last.get(process);
    this.#last.delete(process);
    if (last === undefined) return;
    this.#folding = this.#fold(this.#folding, last);
  }

  /** @returns Prometheus text; concurrent callers share one result */
  text(): Promise<string> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<string> {
    const answers = await Promise.all(
      this.processes().map((process) =>
        withTimeout(this.timeoutMs, process.count(), undefined)
          .catch(() => undefined)
          .then((counts) => {
            if (counts !== undefined) this.remember(process, counts);
            return { process, isSilent: counts === undefined };
          }),
      ),
    );
    const silent = new Set(answers.filter(({ isSilent }) => isSilent).map(({ process }) => process));
    const own = await this.#own.getMetricsAsJSON();
    await this.#allFolded();
    // No await from here on: a process that ends meanwhile must be in exactly one of the two lists.
    const live = [...this.#last].map(([process, counts]) =>
      silent.has(process) ? counts.filter(isCumulative) : counts,
    );
    return sum([own, ...live, this.#ended]).metrics();
  }

  async #fold(earlier: Promise<void>, last: Counts): Promise<void> {
    await earlier;
    this.#ended = await sum([this.#ended, last.filter(isCumulative)]).getMetricsAsJSON();
  }

  async #allFolded(): Promise<void> {
    let folded: Promise<void> | undefined;
    while (folded !== this.#folding) {
      folded = this.#folding;
      await folded;
    }
  }
}

function isCumulative({ type }: Counts[number]): boolean {
  return CUMULATIVE_TYPES.has(String(type));
}

function sum(all: readonly Counts[]): Registry {
  return AggregatorRegistry.aggregate(all.map((counts) => [...counts]));
}
