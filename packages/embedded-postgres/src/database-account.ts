import { errorCode, errorMessage, runProgram } from './run-program.js';
import type { ProgramUser } from './run-program.js';

/** The operating system account that PostgreSQL runs as. */
export interface DatabaseAccount {
  readonly uid: number;
  readonly gid: number;
  readonly name: string;
  /** User of its programs; undefined for the service's own account. */
  readonly runAs: ProgramUser | undefined;
}

/** Accounts to use when the service is root, in order; the last one is created when none exists. */
const CANDIDATES = ['postgres', '_postgres', 'longshore'] as const;
const CREATED_ACCOUNT = 'longshore';

const REMEDY =
  'Start the service as an ordinary user, or set DATABASE_URL to a PostgreSQL server of your own.';

/** PostgreSQL refuses to run as root. */
export function runningAsRoot(): boolean {
  return process.getuid?.() === 0;
}

/**
 * The account of a new cluster: the service's own or, for root, `postgres`, or a new system account `longshore`.
 * @throws Error when root cannot switch to any account
 */
export async function accountForNewCluster(): Promise<DatabaseAccount> {
  if (!runningAsRoot()) return ownAccount();
  for (const name of CANDIDATES) {
    const found = await lookUp(name);
    if (found !== null) return checked(found);
  }
  const attempts = await createAccount();
  const created = await lookUp(CREATED_ACCOUNT);
  if (created !== null) return checked(created);
  throw new Error(
    `PostgreSQL does not run as root, there is no account 'postgres', and creating '${CREATED_ACCOUNT}' failed ` +
      `(${attempts.join('; ')}). ${REMEDY}`,
  );
}

/** The account of an existing cluster: its owner. @throws Error when the service may not run programs as the owner */
export async function accountOfCluster(
  cluster: string,
  owner: { uid: number; gid: number },
): Promise<DatabaseAccount> {
  const own = process.getuid?.();
  if (owner.uid === own && own !== 0) return ownAccount();
  if (own !== 0) {
    throw new Error(
      `The database in ${cluster} belongs to user ${owner.uid}, and this process runs as user ${own}. ` +
        'Start the service as that user or as root, or choose another SERVICE_DATA_DIR.',
    );
  }
  if (owner.uid === 0) {
    throw new Error(
      `The database in ${cluster} belongs to root, and PostgreSQL does not run as root. ` +
        `Give the directory back to its account, for example: chown -R postgres ${cluster}`,
    );
  }
  const found = await lookUp(String(owner.uid));
  return checked(found ?? { uid: owner.uid, gid: owner.gid, name: String(owner.uid) });
}

function ownAccount(): DatabaseAccount {
  const [uid, gid] = [process.getuid?.(), process.getgid?.()];
  if (uid === undefined || gid === undefined) {
    throw new Error('The embedded PostgreSQL needs a Unix system. Set DATABASE_URL to a PostgreSQL server.');
  }
  return { uid, gid, name: String(uid), runAs: undefined };
}

async function lookUp(name: string): Promise<Omit<DatabaseAccount, 'runAs'> | null> {
  const [uid, gid] = await Promise.all([numericId('-u', name), numericId('-g', name)]);
  return uid === null || gid === null || uid === 0 ? null : { uid, gid, name };
}

async function numericId(option: '-u' | '-g', name: string): Promise<number | null> {
  const { code, output } = await runProgram('id', [option, name]);
  return code === 0 && /^\d+$/.test(output) ? Number(output) : null;
}

async function createAccount(): Promise<string[]> {
  const commands: readonly (readonly [string, readonly string[]])[] = [
    [
      'useradd',
      ['--system', '--user-group', '--no-create-home', '--home-dir', '/', '--shell', '/usr/sbin/nologin'],
    ],
    ['adduser', ['-S', '-D', '-H', '-h', '/', '-s', '/sbin/nologin']],
  ];
  const attempts: string[] = [];
  for (const [program, options] of commands) {
    try {
      const { code, output } = await runProgram(program, [...options, CREATED_ACCOUNT]);
      if (code === 0) return attempts;
      attempts.push(`${program}: ${output || `exit code ${code}`}`);
    } catch (error) {
      attempts.push(`${program}: ${errorCode(error) === 'ENOENT' ? 'not installed' : errorMessage(error)}`);
    }
  }
  return attempts;
}

/** Checks that this process may switch to the account: root in a container can lack that right. */
async function checked(account: Omit<DatabaseAccount, 'runAs'>): Promise<DatabaseAccount> {
  const runAs = { uid: account.uid, gid: account.gid };
  try {
    await runProgram('id', ['-u'], runAs);
  } catch (error) {
    throw new Error(
      `PostgreSQL does not run as root, and this root may not run programs as '${account.name}' ` +
        `(${errorMessage(error)}). ${REMEDY}`,
      { cause: error },
    );
  }
  return { ...account, runAs };
}

/** Whether the account may read (`-r`) or execute (`-x`) a path, given the permissions of all directories above it. */
export async function accountCan(
  account: DatabaseAccount,
  right: '-r' | '-x',
  path: string,
): Promise<boolean> {
  const { code } = await runProgram('sh', ['-c', `test ${right} "$1"`, 'sh', path], account.runAs);
  return code === 0;
}
