import { randomBytes } from 'node:crypto';
import type { DataSource } from 'typeorm';
import { DatabaseOriginRepository, differ } from '../../database/database-origin.repository.js';
import { isAloneInDeployment } from '../../database/deployment-lock.js';
import { TOKEN_BYTES } from '../feed-cursor.js';
import { FeedBranchesRepository } from './feed-branches.repository.js';

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
export async function noticeRestore(dataSource: DataSource): Promise<NoticedRestore | undefined> {
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
    const { number, topics } = await new FeedBranchesRepository().begin(manager, token);
    return { branch: number, topics };
  });
}
