/* oxlint-disable no-console -- a command for the terminal */
// Builds dist/ (the service, by `nest build`) and packages/*/dist (the packages; the dashboard by Vite) when the sources have changed.
// `node scripts/build-if-needed.mjs [--force]`, or buildIfNeeded() from another script.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, open, readFile, readdir, rename, rm, rmdir, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const PROJECT = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCE_FOLDERS = ['src', 'migrations', 'demo', 'test', 'packages'];
const DASHBOARD = join('packages', 'dashboard');
const OUTPUTS = ['dist', join(DASHBOARD, 'dist')];
const SOURCE_FILES = [
  'openapi.json',
  'tsconfig.base.json',
  'tsconfig.json',
  'nest-cli.json',
  'package.json',
  'package-lock.json',
];
/** Made from openapi.json, and not committed. */
const CLIENT_TYPES = join('packages', 'client', 'src', 'schema.ts');
const STAMP = '.build-stamp';
const LOCK_REFRESH_MS = 1000;
/** A lock that nobody refreshed for this long belongs to a process that is gone, whatever its id says. */
const LOCK_ABANDONED_MS = 60_000;

/** The build ended with errors, which the compiler has printed. */
export class BuildError extends Error {}

/**
 * Makes both folders up to date. They are built beside themselves and replaced only when both builds succeeded, so that
 * no process ever sees half a build; concurrent calls wait for the first one and use its result.
 * @param {{ root?: string, force?: boolean, signal?: AbortSignal, say?: (line: string) => void }} [options]
 *   root: the project's folder; signal: stops a build under way (the promise rejects with an AbortError)
 * @returns {Promise<boolean>} whether it had to build
 * @throws {BuildError} when the compiler finds errors; both folders are then as before
 */
export async function buildIfNeeded({ root = PROJECT, force = false, signal, say = console.log } = {}) {
  if (!force && (await isFresh(root))) {
    return false;
  }
  await mkdir(join(root, '.build'), { recursive: true });
  const release = await takeLock(join(root, '.build', 'build.lock'), signal);
  try {
    // Another process may have built while this one waited for the lock.
    const fingerprint = await fingerprintOf(root);
    if (!force && (await isFresh(root, fingerprint))) {
      return false;
    }
    say('building ...');
    const began = performance.now();
    await build(root, fingerprint, signal);
    say(`built in ${((performance.now() - began) / 1000).toFixed(1)} s`);
    return true;
  } finally {
    await release();
  }
}

async function isFresh(root, fingerprint) {
  const stamp = await readFile(join(root, 'dist', STAMP), 'utf8').catch(() => undefined);
  return (
    stamp !== undefined &&
    OUTPUTS.every((path) => existsSync(join(root, path))) &&
    stamp === (fingerprint ?? (await fingerprintOf(root)))
  );
}

/** SHA-256 over names and contents of everything that the build reads. */
async function fingerprintOf(root) {
  const files = SOURCE_FILES.map((name) => join(root, name)).filter((path) => existsSync(path));
  for (const folder of SOURCE_FOLDERS) {
    const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true }).catch(
      () => [],
    );
    for (const entry of entries) {
      const path = join(entry.parentPath ?? entry.path, entry.name);
      const local = relative(root, path);
      const isOutput = /^packages.[^/\\]+.(dist|build)/.test(local) || local === CLIENT_TYPES;
      if (
        entry.isFile() &&
        !isOutput &&
        (local.startsWith(DASHBOARD) || /\.ts$|\bpackage\.json$|\btsconfig.*\.json$/.test(local))
      ) {
        files.push(path);
      }
    }
  }
  const hash = createHash('sha256');
  for (const path of files.toSorted((left, right) => (left < right ? -1 : 1))) {
    const content = await readFile(path).catch(() => Buffer.from('gone while reading'));
    hash.update(`\0${relative(root, path)}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}

/** Runs under the lock, so that the folders it uses are its own and what lies there is left over from a killed build. */
async function build(root, fingerprint, signal) {
  // Beside the outputs, because source maps hold paths that are right at this depth only.
  const [service, dashboard] = OUTPUTS.map((path) => ({
    current: join(root, path),
    next: join(root, `${path}.next`),
    previous: join(root, `${path}.previous`),
  }));
  const config = join(root, '.build', 'tsconfig.json');
  const remove = async () => {
    const paths = [service, dashboard].flatMap(({ next, previous }) => [next, previous]);
    for (const path of [...paths, config]) {
      await rm(path, { recursive: true, force: true });
    }
  };
  await remove();
  try {
    await writeFile(
      config,
      JSON.stringify({ extends: '../tsconfig.json', compilerOptions: { outDir: '../dist.next' } }),
    );
    await generateClientTypes(root);
    await runTool(
      root,
      ['typescript', 'bin', 'tsc'],
      ['-b', 'packages'],
      signal ?? new AbortController().signal,
    );
    await runTool(
      root,
      ['typescript', 'bin', 'tsc'],
      ['-p', join(DASHBOARD, 'tsconfig.spec.json')],
      signal ?? new AbortController().signal,
    );
    await inParallel(signal, [
      (stopped) => compileService(root, relative(root, config), stopped),
      (stopped) => bundleDashboard(root, dashboard.next, stopped),
    ]);
    await writeFile(join(service.next, STAMP), fingerprint);
    // The service last: its stamp stands for both.
    for (const { current, next, previous } of [dashboard, service]) {
      if (existsSync(current)) {
        await rename(current, previous);
      }
      await rename(next, current);
    }
  } finally {
    await remove();
  }
}

/** Does the steps at once; the first that fails stops the others, and all have ended when this is through. */
async function inParallel(signal, steps) {
  const failed = new AbortController();
  const stopped = AbortSignal.any([failed.signal, ...(signal === undefined ? [] : [signal])]);
  const running = steps.map((step) =>
    step(stopped).catch((error) => {
      failed.abort(error);
      throw error;
    }),
  );
  const failure = (await Promise.allSettled(running)).find(({ status }) => status === 'rejected');
  signal?.throwIfAborted();
  if (failure !== undefined) {
    throw failed.signal.reason;
  }
}

async function generateClientTypes(root) {
  const { default: openapiTypescript, astToString } = await import('openapi-typescript');
  const document = JSON.parse(await readFile(join(root, 'openapi.json'), 'utf8'));
  const text = `// Generated from openapi.json.\n\n${astToString(await openapiTypescript(document, { alphabetize: true }))}`;
  const path = join(root, CLIENT_TYPES);
  if ((await readFile(path, 'utf8').catch(() => undefined)) !== text) await writeFile(path, text);
}

async function compileService(root, config, signal) {
  await runTool(root, ['@nestjs', 'cli', 'bin', 'nest.js'], ['build', '--path', config], signal);
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

/** Takes the lock file, waiting while a living process holds it. @returns {Promise<() => Promise<void>>} its release */
async function takeLock(path, signal) {
  for (;;) {
    signal?.throwIfAborted();
    try {
      const file = await open(path, 'wx');
      await file.writeFile(String(process.pid));
      await file.close();
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') {
        throw error;
      }
    }
    if (await isAbandoned(path)) {
      await removeAbandoned(path);
    } else {
      await sleep(100);
    }
  }
  const refresh = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => {});
  }, LOCK_REFRESH_MS);
  refresh.unref();
  return async () => {
    clearInterval(refresh);
    await rm(path, { force: true });
  };
}

async function isAbandoned(path) {
  try {
    const { mtimeMs } = await stat(path);
    const age = Date.now() - mtimeMs;
    const pid = Number(await readFile(path, 'utf8'));
    if (age > LOCK_ABANDONED_MS) {
      return true;
    }
    // Empty for the moment between creating and writing it.
    return pid > 0 ? !isAlive(pid) : age > 5000;
  } catch {
    return false;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** Removes a lock whose owner is gone. A folder keeps two waiters from removing one after the other, the second the new lock. */
async function removeAbandoned(path) {
  const guard = `${path}.removal`;
  try {
    await mkdir(guard);
  } catch {
    const { mtimeMs } = await stat(guard).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > 10_000) {
      await rmdir(guard).catch(() => {});
    }
    await sleep(50);
    return;
  }
  try {
    if (await isAbandoned(path)) {
      await rm(path, { force: true });
    }
  } finally {
    await rmdir(guard).catch(() => {});
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const abort = new AbortController();
  process.once('SIGTERM', () => abort.abort());
  process.once('SIGINT', () => abort.abort());
  try {
    await buildIfNeeded({ force: process.argv.includes('--force'), signal: abort.signal });
  } catch (error) {
    if (!abort.signal.aborted) {
      console.error(error instanceof BuildError ? error.message : error);
    }
    process.exitCode = 1;
  }
}
