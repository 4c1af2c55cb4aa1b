import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { type JobRun, MINUTE, RETENTION, ScheduledJob } from '../../common/scheduling/scheduled-job.js';
import { Settings } from '../../config/settings.js';
import { inBatches, paced } from '../../database/sql/in-batches.js';
import { removeAuditEntries } from './audit.repository.js';

const DAY_MS = 86_400_000;

/** Entries that one statement removes, at most. */
const ENTRIES_PER_BATCH = 1000;

/** Removes entries of the audit log that are older than the retention time. */
@Injectable()
export class AuditRetentionJob {
  constructor(
    private readonly dataSource: DataSource,
    @Inject(Settings) private readonly settings: Pick<Settings, 'auditRetentionDays'>,
  ) {}

  @ScheduledJob({
    name: 'audit_retention',
    description: 'removes entries of the audit log that are older than the retention time',
    ...RETENTION,
    everyMs: 10 * MINUTE,
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return this.runOnce(await now(), stop);
  }

  /** One pass; several processes may run it at the same time. @returns how many entries were removed */
  async runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const { auditRetentionDays } = this.settings;
    if (auditRetentionDays === 0) return 0;
    const before = new Date(now.getTime() - auditRetentionDays * DAY_MS);
    return inBatches(ENTRIES_PER_BATCH, stop, () =>
      paced(stop, () => removeAuditEntries(this.dataSource.manager, before, ENTRIES_PER_BATCH)),
    );
  }
}
