import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PROJECT } from '../service-process.js';

const run = promisify(execFile);

/** Holds the commit whose build goes on serving while this one comes up beside it. */
const RECORD = join(PROJECT, 'test', 'upgrade', 'previous-version');

/** Service and agent only, neither tests nor dashboard: nobody looks at them here. */
const BUILD_CONFIG = {
  extends: './tsconfig.json',
  include: ['src/**/*.ts', 'migrations/**/*.ts'],
};

const MOST_OUTPUT = 64 * 1024 * 1024;

/** Another version of the programs, built. */
export interface BuiltVersion {
  readonly commit: string;
  /** Entry of the service. */
  readonly serviceMain: string;
  /** Entry of the worker. */
  readonly agentMain: string;
}

/** The recorded commit, or another one that the clone knows. */
export async function previousCommit(revision?: string): Promise<string> {
  const wanted = revision ?? (await readFile(RECORD, 'utf8')).trim();
  return (await git('rev-parse', '--verify', '--quiet', `${wanted}^{commit}`)).trim();
}

/** Why the recorded commit cannot be built here; undefined when it can. */
export async function missingCommit(revision?: string): Promise<string | undefined> {
  try {
    await previousCommit(revision);
    return undefined;
  } catch {
    const name = revision ?? (await readFile(RECORD, 'utf8')).trim();
    return `the clone does not have the commit ${name} (a shallow clone?): git fetch --unshallow`;
  }
}

/** Builds the version of a commit, once: what was built stays in `.build`. */
export async function buildVersion(commit: string): Promise<BuiltVersion> {
  const folder = join(PROJECT, '.build', 'versions', commit);
  if (!existsSync(folder)) {
    // Under another name until it is whole: a build that is killed leaves nothing that looks like one.
    const unfinished = `${folder}.${process.pid}`;
    await build(commit, unfinished);
    await rename(unfinished, folder).catch(() => rm(unfinished, { recursive: true, force: true }));
  }
  const compiled = join(folder, 'dist', 'src');
  return {
    commit,
    serviceMain: join(compiled, 'main.js'),
    agentMain: join(compiled, 'agent', 'main.js'),
  };
}

async function build(commit: string, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const archive = `${folder}.tar`;
  await git('archive', '--output', archive, commit);
  await run('tar', ['-xf', archive, '-C', folder]);
  await rm(archive);
  if (await fitsPresentModules(folder))
    await symlink(join(PROJECT, 'node_modules'), join(folder, 'node_modules'));
  else await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, maxBuffer: MOST_OUTPUT });
  await writeFile(join(folder, 'tsconfig.version.json'), JSON.stringify(BUILD_CONFIG));
  const nest = join('node_modules', '@nestjs', 'cli', 'bin', 'nest.js');
  await run(process.execPath, [nest, 'build', '--path', 'tsconfig.version.json'], {
    cwd: folder,
    maxBuffer: MOST_OUTPUT,
  });
  assert.ok(existsSync(join(folder, 'dist', 'src', 'main.js')), `commit ${commit} was not built`);
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
