import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Settings } from '../config/settings.js';
import { rows } from '../database/sql/sql.js';
import { FeedRetention } from '../feed/feed-retention.js';
import { ObjectRemovalRepository } from '../files/artifacts/removal/object-removal.repository.js';
import { FileRemovalRepository } from '../files/uploads/file-removal.repository.js';
import { Stores } from '../files/stores/stores.js';
import { MAX_COUNTED, RunRetention } from '../runs/run-retention.job.js';
import type { RetentionDto } from './retention.dto.js';

const DAY_MS = 86_400_000;
const NONE = { objects: 0, bytes: 0, isCut: false };

/** Means of the rows of tables with all their indexes, in bytes; 0 for a table of which the server has no statistics yet. */
interface RowBytes {
  readonly now: Date;
  /** Of a run with its attempts and logs, without its JSON. */
  readonly run: number;
  readonly event: number;
  readonly entry: number;
}

const MEANS = `with sizes as (
         select c.relname as name, case when c.reltuples > 0 then c.reltuples end as tuples,
                -- Of runs, JSON that is stored apart is counted by itself.
                case c.relname
                  when 'runs' then pg_relation_size(c.oid) + pg_indexes_size(c.oid)
                  else pg_total_relation_size(c.oid)
                end as bytes
           from pg_class c
          where c.oid = any(array['runs', 'events', 'attempts', 'run_logs', 'run_log_rows', 'feed_entries']::regclass[])
       )
       select clock_timestamp() as now,
              coalesce(
                sum(bytes) filter (where name not in ('events', 'feed_entries')) / sum(tuples) filter (where name = 'runs'),
                0
              ) as run,
              coalesce(sum(bytes / tuples) filter (where name = 'events'), 0) as event,
              coalesce(sum(bytes / tuples) filter (where name = 'feed_entries'), 0) as entry
         from sizes`;

/** Tells what the next pass of retention would remove. */
@Injectable()
export class RetentionService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly runs: RunRetention,
    private readonly feed: FeedRetention,
    private readonly files: FileRemovalRepository,
    private readonly artifacts: ObjectRemovalRepository,
    private readonly stores: Stores,
    @Inject(Settings) private readonly settings: Pick<Settings, 'fileRetentionDays'>,
  ) {}

  async count(): Promise<RetentionDto> {
    const [means] = await rows<RowBytes>(this.dataSource, MEANS);
    if (!means) throw new Error('the database tells no sizes');
    const { now } = means;
    const { fileRetentionDays: days } = this.settings;
    const since = days === 0 ? null : new Date(now.getTime() - days * DAY_MS);
    const runs = await this.runs.count(now, since);
    const entries = await this.feed.count(now, MAX_COUNTED);
    const hasStore = this.stores.main !== null;
    const files = hasStore ? await this.files.countDoomed(now, days, MAX_COUNTED) : NONE;
    const old = hasStore && since !== null ? await this.artifacts.countOld(since, MAX_COUNTED) : NONE;
    const ofRuns = hasStore ? { objects: runs.objects, bytes: runs.objectBytes } : NONE;
    return {
      runs: runs.runs,
      feed_entries: entries,
      bytes: Math.round(
        runs.bytes + runs.runs * means.run + runs.events * means.event + entries * means.entry,
      ),
      objects: ofRuns.objects + files.objects + old.objects,
      object_bytes: ofRuns.bytes + files.bytes + old.bytes,
      at_least: runs.isCut || files.isCut || entries === MAX_COUNTED || old.objects === MAX_COUNTED,
    };
  }
}
