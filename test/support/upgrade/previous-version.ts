import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { linkPackages } from '../programs/outside-package.js';
import { PROJECT, SERVICE_MAIN } from '../service-process.js';
import { WORKER_MAIN } from '../workers/worker-process.js';

const run = promisify(execFile);

/** Holds the commit of the last release. There is no such file before the first. */
const RECORD = join(PROJECT, 'test', 'upgrade', 'previous-version');

/** The service without its tests. */
const BUILD_CONFIG = {
  extends: './tsconfig.json',
  include: ['src/**/*.ts', 'migrations/**/*.ts'],
};

const MOST_OUTPUT = 64 * 1024 * 1024;

/** A version of the programs, built. */
export interface BuiltVersion {
  /** Entry of the service. */
  readonly serviceMain: string;
  /** Entry of the worker. */
  readonly workerMain: string;
}

/** The commit of the last release, or of another revision; undefined: nothing is released. */
export async function previousCommit(revision?: string): Promise<string | undefined> {
  const wanted = revision ?? (await lastRelease());
  if (wanted === undefined) return undefined;
  return (await git('rev-parse', '--verify', '--quiet', `${wanted}^{commit}`)).trim();
}

/** Why that commit cannot be built here; undefined when it can. */
export async function missingCommit(revision?: string): Promise<string | undefined> {
  try {
    await previousCommit(revision);
    return undefined;
  } catch {
    const name = revision ?? (await lastRelease());
    return `the clone does not have the commit ${name} (a shallow clone?): git fetch --unshallow`;
  }
}

async function lastRelease(): Promise<string | undefined> {
  return existsSync(RECORD) ? (await readFile(RECORD, 'utf8')).trim() : undefined;
}

/**
 * Builds the version of a commit, once: what was built stays in `.build`.
 * @param commit undefined: this tree, which is built already
 */
export async function buildVersion(commit: string | undefined): Promise<BuiltVersion> {
  if (commit === undefined) return { serviceMain: SERVICE_MAIN, workerMain: WORKER_MAIN };
  const folder = join(PROJECT, '.build', 'versions', commit);
  if (!existsSync(folder)) {
    // Under another name until it is whole: a build that is killed leaves nothing that looks like one.
    const unfinished = `${folder}.${process.pid}`;
    await build(commit, unfinished);
    await rename(unfinished, folder).catch(() => rm(unfinished, { recursive: true, force: true }));
  }
  return {
    serviceMain: join(folder, 'dist', 'src', 'main.js'),
    workerMain: join(folder, 'packages', 'worker', 'dist', 'main.js'),
  };
}

async function build(commit: string, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const archive = `${folder}.tar`;
  await git('archive', '--output', archive, commit);
  await run('tar', ['-xf', archive, '-C', folder]);
  await rm(archive);
  if (await fitsPresentModules(folder)) {
    await linkPackages(join(PROJECT, 'node_modules'), join(folder, 'node_modules'));
    await linkOwnPackages(folder);
  } else {
    await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, maxBuffer: MOST_OUTPUT });
  }
  const tool = async (path: readonly string[], ...args: readonly string[]): Promise<void> => {
    const main = join('node_modules', ...path);
    await run(process.execPath, [main, ...args], { cwd: folder, maxBuffer: MOST_OUTPUT });
  };
  const types = join('packages', 'client', 'src', 'schema.ts');
  await tool(['openapi-typescript', 'bin', 'cli.js'], 'openapi.json', '--alphabetize', '-o', types);
  await tool(['typescript', 'bin', 'tsc'], '-b', 'packages');
  await writeFile(join(folder, 'tsconfig.version.json'), JSON.stringify(BUILD_CONFIG));
  await tool(['@nestjs', 'cli', 'bin', 'nest.js'], 'build', '--path', 'tsconfig.version.json');
  assert.ok(existsSync(join(folder, 'dist', 'src', 'main.js')), `commit ${commit} was not built`);
}

async function linkOwnPackages(folder: string): Promise<void> {
  const scope = join(folder, 'node_modules', '@longshore');
  await mkdir(scope);
  for (const name of await readdir(join(folder, 'packages'))) {
    // Relative, because the folder is renamed after the build.
    await symlink(join('..', '..', 'packages', name), join(scope, name));
  }
}

/** Whether everything that the old lock file names is installed here in the same version. */
async function fitsPresentModules(folder: string): Promise<boolean> {
  const [old, present] = await Promise.all([lockedVersions(folder), lockedVersions(PROJECT)]);
  return [...old].every(([path, version]) => present.get(path) === version);
}

async function lockedVersions(folder: string): Promise<Map<string, string>> {
  const lock: { packages: Record<string, { version?: string }> } = JSON.parse(
    await readFile(join(folder, 'package-lock.json'), 'utf8'),
  );
  const installed = Object.entries(lock.packages).filter(([path]) => path !== '');
  return new Map(installed.map(([path, { version = '' }]) => [path, version]));
}

async function git(...args: readonly string[]): Promise<string> {
  const { stdout } = await run('git', ['-C', PROJECT, ...args], { maxBuffer: MOST_OUTPUT });
  return stdout;
}
