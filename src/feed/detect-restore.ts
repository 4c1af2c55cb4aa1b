import { randomBytes } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import { DatabaseOriginRepository, differ } from '../database/database-origin.repository.js';
import { isAloneInDeployment } from '../database/advisory-locks.js';
import { FeedEpochEntity, FeedEpochStartEntity, FeedTopicEntity } from '../database/entities/feed.entity.js';
import { EntityTable } from '../database/entity-table.js';
import { rows } from '../database/sql.js';
import { TOKEN_BYTES } from './feed-cursor.js';

export interface DetectedRestore {
  /** Number of the feed epoch that was started. */
  readonly epoch: number;
  /** Feeds in the backup. */
  readonly topics: number;
}

/**
 * Starts a new feed epoch if the database was restored from a backup since a process last served it: events that readers
 * saw behind the end of the backup are lost, and new events take their positions. Called before a process listens.
 * A database cannot be restored while other processes serve, so nothing is done then.
 * @returns undefined if the database is the same
 */
export async function detectRestore(dataSource: DataSource): Promise<DetectedRestore | undefined> {
  const origin = new DatabaseOriginRepository();
  return dataSource.transaction(async (manager) => {
    const isAlone = await isAloneInDeployment(manager);
    const known = await origin.findMarks(manager);
    if (known !== null && !isAlone) return undefined;
    const present = await origin.readMarks(manager);
    if (known === null || !differ(known, present)) {
      // Keep marks that another role could read and this one cannot.
      const marks = { ...known, ...present };
      if (Object.keys(marks).length > Object.keys(known ?? {}).length) await origin.saveMarks(manager, marks);
      return undefined;
    }
    await origin.saveMarks(manager, present);
    return startEpoch(manager);
  });
}

const EPOCHS = new EntityTable(FeedEpochEntity);
const STARTS = new EntityTable(FeedEpochStartEntity);
const TOPICS = new EntityTable(FeedTopicEntity);

/** Starts an epoch at the present ends of all feeds. */
async function startEpoch(manager: EntityManager): Promise<DetectedRestore> {
  const [row] = await rows<{ number: number; topics: string }>(
    manager,
    `with epoch as (
         insert into ${EPOCHS.name} (number, token, began_at)
         select coalesce(max(number), 0) + 1, $1::text, now()
           from ${EPOCHS.name}
      returning number
       ),
       starts as (
         insert into ${STARTS.name} (number, topic, last_position)
         select e.number, t.topic, t.last_position
           from ${TOPICS.name} t
          cross join epoch e
      returning topic
       )
       select number, (select count(*) from starts) as topics
         from epoch`,
    [randomBytes(TOKEN_BYTES).toString('base64url')],
  );
  if (row === undefined) throw new Error('no feed epoch was started');
  return { epoch: row.number, topics: Number(row.topics) };
}
