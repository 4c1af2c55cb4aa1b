/* oxlint-disable no-console -- a command for the terminal */
// Builds packages, service, tests and dashboard when their sources have changed.
// `node scripts/build-if-needed.mjs [--force] [part ...]`, or buildIfNeeded() from another script.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { takeLock } from './file-lock.mjs';

const PROJECT = dirname(dirname(fileURLToPath(import.meta.url)));
const CLIENT_TYPES = join('packages', 'client', 'src', 'schema.ts');
const DASHBOARD = join('packages', 'dashboard');
const LIBRARIES = ['packages/common', 'packages/embedded-postgres'];
/** What uses the client's generated types. The service does not, so it can be built to generate them. */
const CLIENTS = ['packages/client', 'packages/worker', 'packages/cli', 'packages/conformance'];
const SERVICE_SOURCES = [
  'src',
  'migrations',
  ...LIBRARIES,
  'package.json',
  'package-lock.json',
  'nest-cli.json',
  'tsconfig.base.json',
  'tsconfig.json',
  'tsconfig.build.json',
];

/** What each part is made from, the output that must exist, and the file that holds the fingerprint of the last build. */
const PARTS = {
  libraries: {
    sources: [...LIBRARIES, 'tsconfig.base.json', 'package-lock.json'],
    outputs: LIBRARIES.map((path) => join(path, 'dist')),
    stamp: '.build/libraries.stamp',
  },
  service: { sources: SERVICE_SOURCES, outputs: ['dist/src'], stamp: 'dist/.service.stamp' },
  clients: {
    sources: [...LIBRARIES, ...CLIENTS, 'openapi.json', 'tsconfig.base.json', 'package-lock.json'],
    outputs: CLIENTS.map((path) => join(path, 'dist')),
    stamp: '.build/clients.stamp',
  },
  tests: {
    sources: [...SERVICE_SOURCES, 'packages', 'openapi.json', 'demo', 'test', 'tsconfig.test.json'],
    outputs: ['dist/test', 'dist/demo'],
    stamp: 'dist/.tests.stamp',
  },
  dashboard: {
    sources: [DASHBOARD, 'packages/client', 'openapi.json', 'package-lock.json'],
    outputs: [join(DASHBOARD, 'dist')],
    stamp: '.build/dashboard.stamp',
  },
};
/** The parts that the service runs; the dashboard uses the client. */
export const SERVICE_PARTS = ['libraries', 'clients', 'service', 'dashboard'];

const TSC = ['typescript', 'bin', 'tsc'];

/** The build ended with errors, which the compiler has printed. */
export class BuildError extends Error {}

/**
 * Builds the parts whose sources have changed. Service, tests and dashboard are built in a folder beside the present
 * output and replace it only when all of them succeeded; concurrent calls wait for the first one and use its result.
 * @param {{ root?: string, parts?: string[], force?: boolean, signal?: AbortSignal, say?: (line: string) => void }} [options]
 *   root: the project's folder; parts: default all, without tests where there is no test folder; force: from scratch;
 *   signal: stops a build under way (the promise rejects with an AbortError)
 * @returns {Promise<boolean>} whether it had to build
 * @throws {BuildError} when the compiler finds errors
 */
export async function buildIfNeeded({
  root = PROJECT,
  parts = Object.keys(PARTS).filter((part) => part !== 'tests' || existsSync(join(root, 'test'))),
  force = false,
  signal,
  say = console.log,
} = {}) {
  if (!force && (await findStale(root, parts)).size === 0) {
    return false;
  }
  await mkdir(join(root, '.build'), { recursive: true });
  const release = await takeLock(join(root, '.build', 'build.lock'), signal);
  try {
    // Another process may have built while this one waited for the lock.
    const stale = await findStale(root, parts, force);
    if (stale.size === 0) {
      return false;
    }
    const started = performance.now();
    say(`building ${[...stale.keys()].join(', ')} ...`);
    await build({ root, stale, force, signal: signal ?? new AbortController().signal });
    say(`built in ${((performance.now() - started) / 1000).toFixed(1)} s`);
    return true;
  } finally {
    await release();
  }
}

/** The parts to build, each with the fingerprint of its sources. */
async function findStale(root, parts, force = false) {
  const hashes = new Map();
  const stale = new Map();
  for (const part of parts) {
    const { sources, outputs, stamp } = PARTS[part];
    const fingerprint = await fingerprintOf(root, sources, hashes);
    const built = await readFile(join(root, stamp), 'utf8').catch(() => undefined);
    if (force || built !== fingerprint || !outputs.every((path) => existsSync(join(root, path)))) {
      stale.set(part, fingerprint);
    }
  }
  return stale;
}

/** SHA-256 over names and contents of the sources. @param hashes of the files that were read already */
async function fingerprintOf(root, sources, hashes) {
  const files = new Set();
  for (const source of sources) {
    if (!(await stat(join(root, source)).catch(() => undefined))?.isDirectory()) {
      files.add(source);
      continue;
    }
    for (const entry of await readdir(join(root, source), { recursive: true, withFileTypes: true })) {
      const path = relative(root, join(entry.parentPath ?? entry.path, entry.name));
      const isOutput = /^packages.[^/\\]+.(dist|build|node_modules)\b/.test(path) || path === CLIENT_TYPES;
      const isSource = path.startsWith(DASHBOARD) || /\.ts$|\bpackage\.json$|\btsconfig.*\.json$/.test(path);
      if (entry.isFile() && !isOutput && isSource) {
        files.add(path);
      }
    }
  }
  const whole = createHash('sha256');
  for (const path of [...files].toSorted((left, right) => (left < right ? -1 : 1))) {
    if (!hashes.has(path)) {
      const content = await readFile(join(root, path)).catch(() => '');
      hashes.set(path, createHash('sha256').update(content).digest('hex'));
    }
    whole.update(`${path} ${hashes.get(path)}\n`);
  }
  return whole.digest('hex');
}

/** Runs under the lock, so what lies in its folders is left over from a killed build. */
async function build({ root, stale, force, signal }) {
  // Beside the outputs, because source maps hold paths that are right at this depth only.
  const [dist, dashboard] = ['dist', join(DASHBOARD, 'dist')].map((path) => ({
    current: join(root, path),
    next: join(root, `${path}.next`),
    previous: join(root, `${path}.previous`),
  }));
  const configs = ['nest-cli.json', 'tsconfig.build.json', 'tsconfig.test.json'].map((name) =>
    join(root, '.build', name),
  );
  const remove = async () => {
    const paths = [dist, dashboard].flatMap(({ next, previous }) => [next, previous]);
    for (const path of [...paths, ...configs]) {
      await rm(path, { recursive: true, force: true });
    }
  };
  await remove();
  // A build that fails half-way leaves output of other sources than the stamp names.
  for (const part of ['libraries', 'clients', 'dashboard'].filter((name) => stale.has(name))) {
    await rm(join(root, PARTS[part].stamp), { force: true });
  }
  try {
    if (stale.has('libraries')) {
      await buildPackages(root, LIBRARIES, { force, signal });
      await writeFile(join(root, PARTS.libraries.stamp), stale.get('libraries'));
    }
    if (stale.has('clients')) {
      await generateClientTypes(root);
      await buildPackages(root, CLIENTS, { force, signal });
      await writeFile(join(root, PARTS.clients.stamp), stale.get('clients'));
    }
    const steps = [];
    if (stale.has('service') || stale.has('tests')) {
      if (!force && existsSync(dist.current)) {
        await cp(dist.current, dist.next, { recursive: true, preserveTimestamps: true });
      }
      steps.push((stopped) => compile(root, stale, dist.next, stopped));
    }
    if (stale.has('dashboard')) {
      steps.push((stopped) => bundleDashboard(root, dashboard.next, stopped));
    }
    await inParallel(signal, steps);
    for (const { current, next, previous } of [dashboard, dist].filter((folder) => existsSync(folder.next))) {
      if (existsSync(current)) {
        await rename(current, previous);
      }
      await rename(next, current);
    }
    if (stale.has('dashboard')) {
      await writeFile(join(root, PARTS.dashboard.stamp), stale.get('dashboard'));
    }
  } finally {
    await remove();
  }
}

/** In place: the compiler writes only what has changed, and nothing when there are errors. */
async function buildPackages(root, folders, { force, signal }) {
  await runTool(root, TSC, ['-b', ...folders, ...(force ? ['--force'] : [])], signal);
  for (const folder of folders) {
    await removeOrphans(join(root, folder, 'dist'), join(root, folder, 'src'));
  }
}

/** Compiles service and tests into `next`, which holds the output of the last build and its incremental state. */
async function compile(root, stale, next, signal) {
  const outDir = relative(join(root, '.build'), next);
  for (const name of ['tsconfig.build.json', 'tsconfig.test.json']) {
    const own = name.replace('.json', '');
    const compilerOptions = { outDir, tsBuildInfoFile: join(outDir, `${own}.tsbuildinfo`) };
    const references = [...LIBRARIES, ...CLIENTS].map((path) => ({ path: join('..', path) }));
    const config = { extends: `../${name}`, compilerOptions, references };
    if (name === 'tsconfig.test.json') references.push({ path: 'tsconfig.build.json' });
    await writeFile(join(root, '.build', name), JSON.stringify(config));
  }
  const nest = JSON.parse(await readFile(join(root, 'nest-cli.json'), 'utf8'));
  nest.compilerOptions.deleteOutDir = false;
  await writeFile(join(root, '.build', 'nest-cli.json'), JSON.stringify(nest));

  if (stale.has('service')) {
    const argv = ['build', '--config', '.build/nest-cli.json', '--path', '.build/tsconfig.build.json'];
    await runTool(root, ['@nestjs', 'cli', 'bin', 'nest.js'], argv, signal);
  }
  if (stale.has('tests')) {
    await runTool(root, TSC, ['-p', '.build/tsconfig.test.json'], signal);
    await runTool(root, TSC, ['-p', join(DASHBOARD, 'tsconfig.spec.json')], signal);
  }
  for (const folder of ['src', 'migrations', 'demo', 'test']) {
    await removeOrphans(join(next, folder), join(root, folder));
  }
  for (const part of ['service', 'tests'].filter((name) => stale.has(name))) {
    await writeFile(join(next, basename(PARTS[part].stamp)), stale.get(part));
  }
}

/** Removes compiled files whose source is gone. */
async function removeOrphans(output, sources) {
  for (const path of await readdir(output, { recursive: true }).catch(() => [])) {
    const compiled = /^(.*)\.(?:js|js\.map|d\.ts)$/.exec(path);
    if (compiled !== null && !existsSync(join(sources, `${compiled[1]}.ts`))) {
      await rm(join(output, path));
    }
  }
}

/** Runs the steps at once; the first that fails stops the others. Returns when all have ended. */
async function inParallel(signal, steps) {
  const failed = new AbortController();
  const stopped = AbortSignal.any([failed.signal, signal]);
  await Promise.allSettled(steps.map((step) => step(stopped).catch((error) => failed.abort(error))));
  signal.throwIfAborted();
  failed.signal.throwIfAborted();
}

async function generateClientTypes(root) {
  const { default: openapiTypescript, astToString } = await import('openapi-typescript');
  const document = JSON.parse(await readFile(join(root, 'openapi.json'), 'utf8'));
  const text = `// Generated from openapi.json.\n\n${astToString(await openapiTypescript(document, { alphabetize: true }))}`;
  const path = join(root, CLIENT_TYPES);
  if ((await readFile(path, 'utf8').catch(() => undefined)) !== text) await writeFile(path, text);
}

async function bundleDashboard(root, outDir, signal) {
  const argv = ['build', join(root, DASHBOARD), '--outDir', outDir, '--emptyOutDir', '--logLevel', 'warn'];
  await runTool(root, ['vite', 'bin', 'vite.js'], argv, signal);
}

/** @throws BuildError when it ends with errors, which it has printed */
async function runTool(root, path, argv, signal) {
  const tool = join(root, 'node_modules', ...path);
  if (!existsSync(tool)) {
    throw new BuildError('the build tools are missing: run "npm ci" first');
  }
  const child = spawn(process.execPath, [tool, ...argv], {
    cwd: root,
    // Vite builds for development when the environment says so.
    env: { ...process.env, NODE_ENV: 'production' },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const stop = () => child.kill('SIGTERM');
  signal.addEventListener('abort', stop);
  try {
    const code = await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    signal.throwIfAborted();
    if (code !== 0) {
      throw new BuildError(`the build failed (exit code ${code})`);
    }
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const abort = new AbortController();
  process.once('SIGTERM', () => abort.abort());
  process.once('SIGINT', () => abort.abort());
  try {
    const [force, named] = [
      process.argv.includes('--force'),
      process.argv.slice(2).filter((part) => part in PARTS),
    ];
    await buildIfNeeded({ force, signal: abort.signal, ...(named.length > 0 && { parts: named }) });
  } catch (error) {
    if (!abort.signal.aborted) {
      console.error(error instanceof BuildError ? error.message : error);
    }
    process.exitCode = 1;
  }
}
