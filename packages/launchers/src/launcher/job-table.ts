import { isDeepStrictEqual } from 'node:util';
import type { EngineJob, JobKey, JobStatus } from './engine.js';

/** The jobs of an engine as of its newest list. Wakes those who wait for a change. */
export class JobTable {
  private readonly jobs = new Map<string, EngineJob>();
  private readonly waiters = new Map<string, Set<() => void>>();

  list(): readonly EngineJob[] {
    return [...this.jobs.values()];
  }

  find(key: JobKey): EngineJob | null {
    return this.jobs.get(nameOf(key)) ?? null;
  }

  put(job: EngineJob): void {
    this.jobs.set(nameOf(job), job);
    this.wake(nameOf(job));
  }

  delete(key: JobKey): void {
    if (this.jobs.delete(nameOf(key))) this.wake(nameOf(key));
  }

  /**
   * Takes over a complete list.
   * @param isKept whether a job stays that the list lacks, as it may be newer than the list
   */
  replace(jobs: readonly EngineJob[], isKept: (job: EngineJob) => boolean): void {
    const listed = new Set(jobs.map(nameOf));
    for (const job of jobs) this.put(job);
    for (const job of this.list()) {
      if (!listed.has(nameOf(job)) && !isKept(job)) this.delete(job);
    }
  }

  /** As `Engine.nextStatus`. @throws the signal's reason when it is aborted */
  async nextStatus(key: JobKey, known: JobStatus | null, signal: AbortSignal): Promise<EngineJob | null> {
    for (;;) {
      signal.throwIfAborted();
      const job = this.find(key);
      if (job === null || !isDeepStrictEqual(job.status, known)) return job;
      await this.untilChanged(nameOf(key), signal);
    }
  }

  private untilChanged(name: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiters = this.waiters.get(name) ?? new Set();
      this.waiters.set(name, waiters);
      const done = () => {
        waiters.delete(done);
        if (waiters.size === 0 && this.waiters.get(name) === waiters) this.waiters.delete(name);
        signal.removeEventListener('abort', done);
        resolve();
      };
      waiters.add(done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  private wake(name: string): void {
    for (const done of this.waiters.get(name) ?? []) done();
  }
}

/** Identifies an attempt in texts and maps. */
export function nameOf({ runId, attempt }: JobKey): string {
  return `${runId}/${attempt}`;
}
