import { Injectable, Logger } from '@nestjs/common';
import { type JobRun, MINUTE, RETENTION, ScheduledJob } from '../../../common/scheduling/scheduled-job.js';
import { paced } from '../../../database/sql/in-batches.js';
import type { StoredObject } from '../../stores/file-store.js';
import { StoreMetrics } from '../../stores/store-metrics.js';
import { Stores } from '../../stores/stores.js';
import { FileRepository, FILES_PREFIX } from '../../uploads/file.repository.js';
import { ownerOf, RUNS_PREFIX } from '../object-keys.js';
import { ObjectRemovalRepository } from './object-removal.repository.js';
import { StoreOwner } from './store-owner.js';
import { pagesOf } from './store-pages.js';

const HOUR_MS = 60 * MINUTE;
/** Objects that belong to nothing are kept for so long: longer than any URL lives. */
const KEPT_MS = 8 * 24 * HOUR_MS;
/** Those of attempts that do not count. */
const LATE_MS = HOUR_MS;

/** Removes objects that belong to nothing, such as what came after its run was removed. */
@Injectable()
export class StoreSweepJob {
  private readonly logger = new Logger('Files');

  constructor(
    private readonly stores: Stores,
    private readonly owner: StoreOwner,
    private readonly files: FileRepository,
    private readonly removals: ObjectRemovalRepository,
    private readonly metrics: StoreMetrics,
  ) {}

  @ScheduledJob({
    name: 'file_store_sweep',
    description: 'removes objects from the store of files that belong to no run and no file',
    ...RETENTION,
    everyMs: 24 * HOUR_MS,
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return this.stores.main === null ? 0 : this.runOnce(await now(), stop);
  }

  /** One pass over the store, if it is of this deployment. @returns how many objects were removed */
  async runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const { main } = this.stores;
    if (main === null || !(await this.owner.isOurs(main))) return 0;
    let [removed, bytes] = [0, 0];
    for (const prefix of [FILES_PREFIX, RUNS_PREFIX]) {
      for await (const listed of pagesOf(main, prefix)) {
        if (stop?.aborted === true) return removed;
        removed += await paced(stop, async () => {
          const doomed = await this.#ownerless(listed, now);
          if (doomed.length > 0) await main.remove(doomed.map(({ key }) => key));
          bytes += sumOf(listed) - sumOf(doomed);
          return doomed.length;
        });
      }
    }
    this.metrics.swept(bytes);
    if (removed > 0)
      this.logger.log(`removed ${removed} objects that belong to nothing from the store of files`);
    return removed;
  }

  async #ownerless(listed: readonly StoredObject[], now: Date): Promise<StoredObject[]> {
    const owned = listed.map((object) => ({ object, owner: ownerOf(object.key) }));
    const runIds = new Set(owned.flatMap(({ owner }) => (owner?.kind === 'artifact' ? owner.runId : [])));
    const fileIds = new Set(owned.flatMap(({ owner }) => (owner?.kind === 'file' ? owner.id : [])));
    const runs = new Map((await this.removals.findRuns([...runIds])).map((run) => [run.id, run]));
    const files = new Map((await this.files.read([...fileIds])).map((file) => [file.id, file]));
    return owned.flatMap(({ object, owner }) => {
      const ageMs = now.getTime() - object.modifiedAt.getTime();
      if (owner === undefined) return [];
      if (owner.kind === 'file') {
        const file = files.get(owner.id);
        return (file && file.state !== 'removed') || ageMs < KEPT_MS ? [] : [object];
      }
      const run = runs.get(owner.runId);
      if (!run) return ageMs < KEPT_MS ? [] : [object];
      return !run.hasEnded || owner.attempt === run.counting || ageMs < LATE_MS ? [] : [object];
    });
  }
}

function sumOf(objects: readonly StoredObject[]): number {
  return objects.reduce((sum, { bytes }) => sum + bytes, 0);
}
