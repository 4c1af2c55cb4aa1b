import { bodyOf } from '../http/answer-shapes.js';
import { histogramTotals, type HistogramTotals } from '../monitoring/metrics.js';
import type { Send, TestAnswer } from '../app/test-app.js';

/** How a bulk request is sent. */
export interface BulkOptions {
  /** Idempotency-Key. */
  readonly key?: string;
  /** Asks for ids in the place of runs. */
  readonly minimal?: boolean;
}

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

/** Bulk requests over HTTP; `results` are checked against the documented shape of the answer. */
export class BulkSteps {
  constructor(readonly send: Send) {}

  /** The answer to POST /runs/batch, whatever it is. */
  postRuns(runs: unknown, options: BulkOptions = {}): Promise<TestAnswer> {
    return this.send('POST', '/runs/batch', { body: { runs }, headers: headersOf(options) });
  }

  /** The answer to POST /workers/{id}/events, whatever it is. */
  postEvents(worker: string, events: unknown, options: BulkOptions = {}): Promise<TestAnswer> {
    const path = `/workers/${encodeURIComponent(worker)}/events`;
    return this.send('POST', path, { body: { events }, headers: headersOf(options) });
  }

  /** Creates runs; what became of each. */
  async create(runs: readonly unknown[], options: BulkOptions = {}): Promise<any[]> {
    const answer = await this.postRuns(runs, options);
    return bodyOf(answer, options.minimal ? 'CreatedRunIds' : 'CreatedRuns').results;
  }

  /** Reports events; what became of each. */
  async report(worker: string, events: readonly unknown[], options: BulkOptions = {}): Promise<any[]> {
    return bodyOf(await this.postEvents(worker, events, options), 'RecordedEvents').results;
  }

  /** Creates runs that must be taken; their ids. */
  async ids(count: number, run: Readonly<Record<string, unknown>> = {}): Promise<string[]> {
    const runs = Array.from({ length: count }, () => ({ image: 'image', ...run }));
    return (await this.create(runs)).map((result) => result.run.id);
  }

  /** What the journal has committed so far: groups, and their members. */
  async groups(): Promise<HistogramTotals> {
    return histogramTotals((await this.send('GET', '/metrics')).text, 'longshore_journal_group_size');
  }

  /** What a claim of up to `max` runs gets. */
  async claim(worker: string, max: number, options: BulkOptions & { wait?: number } = {}): Promise<any[]> {
    const wait = options.wait === undefined ? '' : `&wait=${options.wait}`;
    const path = `/workers/${encodeURIComponent(worker)}/claim?max=${max}${wait}`;
    return bodyOf(await this.send('POST', path, { headers: headersOf(options) }), 'ClaimedOps').ops;
  }
}

function headersOf({ key, minimal }: BulkOptions): Record<string, string> {
  return {
    ...(key === undefined ? {} : { 'Idempotency-Key': key }),
    ...(minimal ? { Prefer: 'return=minimal' } : {}),
  };
}
