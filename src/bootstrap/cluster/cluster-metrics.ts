import { setTimeout as sleep } from 'node:timers/promises';
import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import type { Counts } from './cluster-messages.js';

/** What is summed up for good: a gauge says how things are now, and an ended process is no more. */
const LASTING_TYPES: ReadonlySet<string> = new Set(['counter', 'histogram']);

/** A server process, as far as its counts go. */
export interface Counted {
  /** Asks it for its counts; may never be answered. */
  count(): Promise<Counts>;
}

/**
 * The counts of all server processes as one text. A process that does not answer in time appears with the counters that
 * it last told, an ended one too, so that no total goes back.
 */
export class ClusterMetrics {
  readonly #own = new Registry();
  readonly #replacements: Counter;
  readonly #last = new Map<Counted, Counts>();
  #ended: Counts = [];
  #folding: Promise<void> = Promise.resolve();
  #reading: Promise<string> | undefined;

  /**
   * @param processes those that answer requests now
   * @param limitMs how long they may take to tell their counts
   */
  constructor(
    private readonly processes: () => readonly Counted[],
    private readonly limitMs: number,
  ) {
    const registers = [this.#own];
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

  /** Counts one replacement. */
  countReplacement(): void {
    this.#replacements.inc();
  }

  /** Remembers what a process told. */
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

  /** @returns Prometheus text; whoever asks while it is being made gets the same */
  text(): Promise<string> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<string> {
    const abort = new AbortController();
    const limit = sleep(this.limitMs, undefined, { signal: abort.signal }).catch(() => undefined);
    const told = await Promise.all(
      this.processes().map((process) =>
        Promise.race([process.count(), limit])
          .catch(() => undefined)
          .then((counts) => {
            if (counts !== undefined) this.remember(process, counts);
            return { process, isSilent: counts === undefined };
          }),
      ),
    );
    abort.abort();
    const silent = new Set(told.filter(({ isSilent }) => isSilent).map(({ process }) => process));
    const own = await this.#own.getMetricsAsJSON();
    await this.#allFolded();
    // Nothing may come in between: a process that ends is in one of the two lists, not in both or none.
    const live = [...this.#last].map(([process, counts]) =>
      silent.has(process) ? counts.filter(isLasting) : counts,
    );
    return sum([own, ...live, this.#ended]).metrics();
  }

  async #fold(earlier: Promise<void>, last: Counts): Promise<void> {
    await earlier;
    this.#ended = await sum([this.#ended, last.filter(isLasting)]).getMetricsAsJSON();
  }

  async #allFolded(): Promise<void> {
    let folded: Promise<void> | undefined;
    while (folded !== this.#folding) {
      folded = this.#folding;
      await folded;
    }
  }
}

function isLasting({ type }: Counts[number]): boolean {
  return LASTING_TYPES.has(String(type));
}

function sum(all: readonly Counts[]): Registry {
  return AggregatorRegistry.aggregate(all.map((counts) => [...counts]));
}
