import type { DataSource } from 'typeorm';
import { isAloneInDeployment } from '../../database/advisory-locks.js';
import { SharedPoolRepository } from './shared-pool.repository.js';

/**
 * Empties the shared pool of workers when no other process of the deployment serves: what it holds is of an earlier
 * life. Called once before a process listens, or its primary process before it starts others; a process that joins
 * later changes nothing.
 * @returns whether it was the first
 */
export async function resetPoolOnFirstStart(dataSource: DataSource): Promise<boolean> {
  const repository = new SharedPoolRepository();
  return dataSource.transaction(async (manager) => {
    if (!(await isAloneInDeployment(manager))) return false;
    await repository.empty(manager);
    await repository.begin(manager);
    return true;
  });
}
