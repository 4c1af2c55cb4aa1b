import type { RunView } from './service-api.js';

/** Runs that are kept, at most. */
const MAX_RUNS = 1_000;

/** Bytes of the answer of a run that is kept, at most. */
const MAX_BYTES = 16_384;

interface CachedRun {
  readonly etag: string;
  readonly view: RunView;
}

/** The latest answers of runs with their entity tags, so that a poll of an unchanged run transfers nothing. */
export class RunEtagCache {
  /** The least recently read first. */
  private readonly runs = new Map<string, CachedRun>();

  get(runId: string): CachedRun | undefined {
    return this.runs.get(runId);
  }

  /** @param view null: the answer was not the service's */
  keep(runId: string, view: RunView | null, headers: Headers): void {
    this.runs.delete(runId);
    const etag = headers.get('ETag');
    const length = headers.get('Content-Length');
    const isSmall = length !== null && Number(length) <= MAX_BYTES;
    if (view === null || etag === null || !isSmall) return;
    this.runs.set(runId, { etag, view });
    const [oldest] = this.runs.keys();
    if (this.runs.size > MAX_RUNS && oldest !== undefined) this.runs.delete(oldest);
  }
}
