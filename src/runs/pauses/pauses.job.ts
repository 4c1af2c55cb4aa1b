import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { NIL } from 'uuid';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import { MINUTE, SECOND, ScheduledJob, type JobRun } from '../../common/scheduling/scheduled-job.js';
import { whenAlone } from '../../database/advisory-locks.js';
import { sendNotice } from '../../database/notices/commit-notice.js';
import { execute, rows } from '../../database/sql/sql.js';
import { readIndexesInOrder } from '../queue/concurrency-keys.js';
import { claimablePart } from '../queue/lane.js';
import { isActive, Pauses, type StoredPause } from '../queue/pauses.js';

export const APPLY_PAUSES = 'pauses';

/** Rows of the queue that one transaction checks. */
const ROWS_PER_BATCH = 5_000;

/** Pause while another process does the same, or after rows that others had locked. */
const AGAIN_MS = SECOND;

const APPLY_LOCK = '3908512264410939';

/** What one way through rows of the queue did. */
interface Walk {
  readonly written: number;
  /** Whether it came to the last row. */
  readonly isEnded: boolean;
  /** Whether it wrote all rows that were to be written. */
  readonly isComplete: boolean;
}

const NOTHING: Walk = { written: 0, isEnded: true, isComplete: true };

/** Whether the pause `p` has not changed since it was read. */
const AS_READ = `exists (
              select from unnest($1::text[], $2::xid[]) as v (name, written_by) where v.name = p.name and v.written_by = p.xmin
            )`;

/** Lets the rows of the queue follow the pauses: marks those of runs that are held, and makes the others claimable again. */
@Injectable()
export class PausesJob implements OnModuleInit, OnModuleDestroy {
  #unsubscribe: () => void = () => undefined;

  constructor(
    private readonly dataSource: DataSource,
    private readonly pauses: Pauses,
    private readonly scheduler: JobScheduler,
  ) {}

  onModuleInit(): void {
    this.#unsubscribe = this.pauses.onRead((found) => this.#scheduleEnds(found));
  }

  onModuleDestroy(): void {
    this.#unsubscribe();
  }

  @ScheduledJob({
    name: APPLY_PAUSES,
    description:
      'marks and releases the queued runs of pauses that have changed; also runs when one changes or ends',
    everyMs: MINUTE,
    jitterMs: 20,
    firstDelayMs: 0,
    level: 'debug',
    retry: { firstMs: SECOND, longestMs: 10 * SECOND },
  })
  run({ stop }: JobRun): Promise<number> {
    return this.runOnce(stop);
  }

  /**
   * Lets the queue follow all changes of pauses until now, in short transactions. Several processes may do so at once: a row is right after
   * the last of them.
   * @returns the number of rows that were written
   */
  async runOnce(stop?: AbortSignal): Promise<number> {
    const found = await this.pauses.refresh();
    const changed = found.filter((pause) => !pause.isApplied || !isActive(pause));
    if (changed.length === 0) return 0;
    const walk = (isPaused: boolean): Promise<Walk> => this.#walk(isPaused, stop);
    // Rows that were marked by a pause of before are seen after that.
    await this.dataSource.transaction((manager) => this.pauses.awaitMarking(manager));
    const released = await walk(true);
    // A row that is not marked here is marked by the claim that reads it.
    const marked = found.some((pause) => isActive(pause) && !pause.isApplied) ? await walk(false) : NOTHING;
    if (released.isComplete && marked.isEnded) await this.#finish(changed);
    else if (stop?.aborted !== true) this.scheduler.runWithin(APPLY_PAUSES, AGAIN_MS);
    return released.written + marked.written;
  }

  /** Goes once through the rows that are marked, or through the others. */
  async #walk(isPaused: boolean, stop: AbortSignal | undefined): Promise<Walk> {
    let after: string = NIL;
    let written = 0;
    let isComplete = true;
    for (;;) {
      if (stop?.aborted === true) return { written, isEnded: false, isComplete: false };
      const from = after;
      const batch = await whenAlone(this.dataSource, APPLY_LOCK, (manager) =>
        this.#settle(manager, from, isPaused),
      );
      if (batch === null) return { written, isEnded: false, isComplete: false };
      written += batch.written;
      isComplete &&= batch.isComplete;
      if (batch.last === null) return { written, isEnded: true, isComplete };
      after = batch.last;
    }
  }

  async #settle(
    manager: EntityManager,
    after: string,
    isPaused: boolean,
  ): Promise<Omit<Walk, 'isEnded'> & { readonly last: string | null }> {
    await readIndexesInOrder(manager);
    const page = await rows<{ id: string }>(
      manager,
      `select run_id as id
         from queue
        where run_id > $1::uuid
          and ${isPaused ? 'is_paused' : 'not is_paused'}
        order by run_id
        limit ${ROWS_PER_BATCH}`,
      [after],
    );
    const { claimable, written, skipped } = await this.pauses.apply(manager, page);
    if (claimable.length > 0) await sendNotice(manager, { queue: claimablePart(claimable) });
    const last = page.length < ROWS_PER_BATCH ? null : (page.at(-1)?.id ?? null);
    return { last, written, isComplete: skipped === 0 };
  }

  /** Notes that the queue follows these pauses, unless they have changed since, and removes those that have ended. */
  async #finish(changed: readonly StoredPause[]): Promise<void> {
    const [ended, applied] = [changed.filter((pause) => !isActive(pause)), changed.filter(isActive)];
    if (ended.length > 0)
      await execute(this.dataSource, `delete from pauses p where ${AS_READ}`, versionsOf(ended));
    if (applied.length > 0) {
      await execute(
        this.dataSource,
        `update pauses p set is_applied = true where ${AS_READ}`,
        versionsOf(applied),
      );
    }
  }

  #scheduleEnds(found: readonly StoredPause[]): void {
    const ends = found.flatMap(({ endsInMs }) => (endsInMs !== null && endsInMs > 0 ? [endsInMs] : []));
    if (ends.length > 0) this.scheduler.runWithin(APPLY_PAUSES, Math.min(...ends));
  }
}

function versionsOf(pauses: readonly StoredPause[]): readonly unknown[] {
  return [pauses.map(({ name }) => name), pauses.map(({ writtenBy }) => writtenBy)];
}
