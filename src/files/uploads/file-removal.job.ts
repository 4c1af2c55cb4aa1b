import { Inject, Injectable } from '@nestjs/common';
import { type JobRun, MINUTE, RETENTION, ScheduledJob } from '../../common/scheduling/scheduled-job.js';
import { Settings } from '../../config/settings.js';
import { inBatches, paced } from '../../database/sql/in-batches.js';
import { Stores } from '../stores/stores.js';
import { FileRemovalRepository, FILES_PER_BATCH } from './file-removal.repository.js';

/** Removes files that nothing uses, uploads that were not completed, and the bytes of files whose retention time is over. */
@Injectable()
export class FileRemovalJob {
  constructor(
    private readonly removals: FileRemovalRepository,
    private readonly stores: Stores,
    @Inject(Settings) private readonly settings: Pick<Settings, 'fileRetentionDays'>,
  ) {}

  @ScheduledJob({
    name: 'file_removal',
    description:
      'removes files that nothing has used for a day, and those older than SERVICE_FILE_RETENTION_DAYS',
    ...RETENTION,
    everyMs: 5 * MINUTE,
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return this.stores.main === null ? 0 : this.runOnce(await now(), stop);
  }

  /** One pass; several processes may run it at the same time. @returns how many files were removed */
  async runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const { main } = this.stores;
    if (main === null) return 0;
    let removed = 0;
    await inBatches(FILES_PER_BATCH, stop, () =>
      paced(stop, async () => {
        const { due, doomed } = await this.removals.markDue(now, this.settings.fileRetentionDays);
        await this.removals.removeObjects(main, doomed, now);
        removed += doomed.length;
        return due;
      }),
    );
    return removed;
  }
}
