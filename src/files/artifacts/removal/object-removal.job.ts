import { Inject, Injectable } from '@nestjs/common';
import { type JobRun, MINUTE, RETENTION, ScheduledJob } from '../../../common/scheduling/scheduled-job.js';
import { Settings } from '../../../config/settings.js';
import { inBatches, paced } from '../../../database/sql/in-batches.js';
import type { FileStore } from '../../stores/file-store.js';
import { Stores } from '../../stores/stores.js';
import { artifactKey, attemptsPrefix, ownerOf } from '../object-keys.js';
import { ObjectRemovalRepository, PER_PAGE, type DueRun } from './object-removal.repository.js';
import { pagesOf } from './store-pages.js';

const HOUR_MS = 60 * MINUTE;
const DAY_MS = 24 * HOUR_MS;
/** For how long an upload in parts may go on: longer than its URLs live. */
const UPLOAD_MS = 8 * DAY_MS;

/** Removes objects of attempts that do not count, of runs that are to be removed, and artifacts that were kept long enough. */
@Injectable()
export class ObjectRemovalJob {
  constructor(
    private readonly stores: Stores,
    private readonly removals: ObjectRemovalRepository,
    @Inject(Settings) private readonly settings: Pick<Settings, 'fileRetentionDays'>,
  ) {}

  @ScheduledJob({
    name: 'object_removal',
    description:
      'removes from the store of files what was left by attempts that do not count, and by runs that are to be removed',
    ...RETENTION,
    everyMs: 5 * MINUTE,
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return this.runOnce(await now(), stop);
  }

  /** One pass; several processes may run it at the same time. Without a store, only runs are made ready for their removal. @returns how many runs, artifacts and uploads it has looked at */
  async runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const { main } = this.stores;
    const { fileRetentionDays: days } = this.settings;
    const steps = [() => this.#cleanUp(main, now)];
    if (main !== null) {
      steps.push(() => this.#abortUploads(main, new Date(now.getTime() - UPLOAD_MS)));
      if (days > 0) steps.push(() => this.#removeOld(main, new Date(now.getTime() - days * DAY_MS), now));
    }
    let looked = 0;
    for (const step of steps) looked += await inBatches(PER_PAGE, stop, () => paced(stop, step));
    return looked;
  }

  /** @param store null: it was switched off, and the sweep finds what it has when it is there again */
  async #cleanUp(store: FileStore | null, now: Date): Promise<number> {
    const due = await this.removals.listDue(now);
    for (const run of due) {
      if (run.removesAll && run.isAwaited) {
        await this.removals.postpone(run, new Date(now.getTime() + HOUR_MS));
        continue;
      }
      if (store !== null && (run.attempt === null || run.hasEnded)) await removeObjects(store, run);
      await this.removals.settle(run);
    }
    return due.length;
  }

  async #removeOld(store: FileStore, before: Date, now: Date): Promise<number> {
    const old = await this.removals.listOld(before);
    if (old.length === 0) return 0;
    await store.remove(old.map(artifactKey));
    await this.removals.noteRemoved(old, now);
    return old.length;
  }

  async #abortUploads(store: FileStore, before: Date): Promise<number> {
    const open = await this.removals.listUploads(before);
    for (const upload of open) {
      await store.parts?.abort(artifactKey(upload), upload.uploadId);
      await this.removals.forgetUpload(upload);
    }
    return open.length;
  }
}

/** Removes objects of a run that has ended; not of attempts that somebody opens meanwhile. */
async function removeObjects(
  store: FileStore,
  { runId, removesAll, attempt, counting }: DueRun,
): Promise<void> {
  for await (const listed of pagesOf(store, attemptsPrefix(runId))) {
    const doomed = listed.filter(({ key }) => {
      const owner = ownerOf(key);
      if (owner?.kind !== 'artifact') return true;
      return (attempt === null || owner.attempt <= attempt) && (removesAll || owner.attempt !== counting);
    });
    if (doomed.length > 0) await store.remove(doomed.map(({ key }) => key));
  }
  // A folder that took no more uploads stays when it is empty, until something of it is removed.
  const sealed = Array.from({ length: removesAll ? (attempt ?? 0) : 0 }, (_, at) => at + 1);
  await store.remove(sealed.map((one) => artifactKey({ runId, attempt: one, name: 'none' })));
}
