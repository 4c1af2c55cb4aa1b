import { randomBytes } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import { DatabaseOriginRepository, differ } from '../../database/database-origin.repository.js';
import { isAloneInDeployment } from '../../database/advisory-locks.js';
import {
  FeedBranchEntity,
  FeedBranchHeadEntity,
  FeedTopicEntity,
} from '../../database/entities/feed.entity.js';
import { EntityTable } from '../../database/entity-table.js';
import { rows } from '../../database/sql.js';
import { TOKEN_BYTES } from '../feed-cursor.js';

/** What began with a restored database. */
export interface NoticedRestore {
  /** Number of the branch on which all feeds go on. */
  readonly branch: number;
  /** How many feeds the backup held. */
  readonly topics: number;
}

/**
 * Looks whether the database was restored from a backup since a process served it last, and has all feeds go on as
 * another branch then: what readers saw behind the backup's end is lost, and must not be taken for what comes instead.
 * Called once before a process listens. While other processes serve nothing can have been restored, so nothing is done.
 * @returns undefined when it is the same database as before
 */
export async function detectRestore(dataSource: DataSource): Promise<NoticedRestore | undefined> {
  const origin = new DatabaseOriginRepository();
  return dataSource.transaction(async (manager) => {
    const isAlone = await isAloneInDeployment(manager);
    const known = await origin.findMarks(manager);
    if (known !== null && !isAlone) return undefined;
    const present = await origin.readMarks(manager);
    if (known === null || !differ(known, present)) {
      // What another role could read, and this one cannot, stays known.
      const marks = { ...known, ...present };
      if (Object.keys(marks).length > Object.keys(known ?? {}).length) await origin.saveMarks(manager, marks);
      return undefined;
    }
    await origin.saveMarks(manager, present);
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    return beginBranch(manager, token);
  });
}

const BRANCHES = new EntityTable(FeedBranchEntity);
const HEADS = new EntityTable(FeedBranchHeadEntity);
const TOPICS = new EntityTable(FeedTopicEntity);

/** Begins a branch at the present ends of all feeds: one statement, however many there are. */
async function beginBranch(manager: EntityManager, token: string): Promise<NoticedRestore> {
  const [row] = await rows<{ number: number; topics: string }>(
    manager,
    `with begun as (
         insert into ${BRANCHES.name} (number, token, began_at)
         select coalesce(max(number), 0) + 1, $1::text, now()
           from ${BRANCHES.name}
      returning number
       ),
       heads as (
         insert into ${HEADS.name} (number, topic, last_position)
         select b.number, t.topic, t.last_position
           from ${TOPICS.name} t
          cross join begun b
      returning topic
       )
       select number, (select count(*) from heads) as topics
         from begun`,
    [token],
  );
  if (row === undefined) throw new Error('no branch was begun');
  return { branch: row.number, topics: Number(row.topics) };
}
