import type { DatabaseAccount } from './database-account.js';
import { runProgram } from './run-program.js';

/**
 * Whether the database's account may read (`-r`) or run, for a directory enter (`-x`), this path. The system is
 * asked as that account, because every directory above the path has a say in it.
 */
export async function accountCan(
  account: DatabaseAccount,
  right: '-r' | '-x',
  path: string,
): Promise<boolean> {
  const { code } = await runProgram('sh', ['-c', `test ${right} "$1"`, 'sh', path], account.runAs);
  return code === 0;
}
