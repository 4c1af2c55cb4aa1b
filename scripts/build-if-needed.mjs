/* oxlint-disable no-console -- a command for the terminal */
// Builds packages, service, demo and dashboard when their sources have changed.
// `node scripts/build-if-needed.mjs [--force] [part ...]`, or buildIfNeeded() from another script.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, realpathSync } from 'node:fs';
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import lockfile from 'proper-lockfile';

const PROJECT = dirname(dirname(fileURLToPath(import.meta.url)));
const CLIENT_TYPES = join('packages', 'client', 'src', 'schema.ts');
const DASHBOARD = join('packages', 'dashboard');
const LIBRARIES = ['packages/common', 'packages/embedded-postgres'];
/** What uses the client's generated types. The service does not, so it can be built to generate them. */
const CLIENTS = [
  'packages/client',
  'packages/worker',
  'packages/launchers',
  'packages/cli',
  'packages/conformance',
];
const CONFIGURATION = ['tsconfig.base.json', 'package-lock.json'];
const SERVICE_CONFIGURATION = ['package.json', 'nest-cli.json', 'tsconfig.json', 'tsconfig.build.json'];
/** Those of `nest build`, but that it keeps what was built before when it finds errors, and compiles only what has changed. */
const NEST_CONFIGURATION = join('.build', 'nest-cli.json');

/** What each part is made from, in the order of the build, the output that must exist, and the commands that make it. */
const PARTS = {
  libraries: {
    sources: [...LIBRARIES, ...CONFIGURATION],
    outputs: LIBRARIES.map((path) => join(path, 'dist')),
    commands: [['typescript/bin/tsc', '-b', ...LIBRARIES]],
  },
  clients: {
    sources: [...LIBRARIES, ...CLIENTS, 'openapi.json', ...CONFIGURATION],
    outputs: CLIENTS.map((path) => join(path, 'dist')),
    prepare: generateClientTypes,
    commands: [['typescript/bin/tsc', '-b', ...CLIENTS]],
  },
  service: {
    sources: ['src', 'migrations', ...LIBRARIES, ...CONFIGURATION, ...SERVICE_CONFIGURATION],
    outputs: ['dist/src', 'dist'],
    prepare: writeNestConfiguration,
    commands: [
      ['@nestjs/cli/bin/nest.js', 'build', '--config', NEST_CONFIGURATION, '--path', 'tsconfig.build.json'],
    ],
  },
  demo: {
    sources: [
      'demo',
      'src/config',
      'src/database/failover',
      'tsconfig.json',
      'tsconfig.demo.json',
      ...LIBRARIES,
      ...CLIENTS,
      'openapi.json',
      ...CONFIGURATION,
    ],
    outputs: ['.build/demo'],
    commands: [['typescript/bin/tsc', '-p', 'tsconfig.demo.json']],
  },
  dashboard: {
    sources: [DASHBOARD, 'packages/client', 'openapi.json', 'package-lock.json'],
    outputs: [join(DASHBOARD, 'dist')],
    commands: [['vite/bin/vite.js', 'build', DASHBOARD, '--emptyOutDir', '--logLevel', 'warn']],
  },
};
/** The parts that the service runs; the dashboard uses the client. */
export const SERVICE_PARTS = ['libraries', 'clients', 'service', 'dashboard'];

/** The build ended with errors, which the compiler has printed. */
export class BuildError extends Error {}

/**
 * Builds the parts whose sources have changed, in place: a compiler that finds errors writes nothing. Concurrent calls
 * wait for the first one and use its result.
 * @param {{ parts?: string[], force?: boolean, signal?: AbortSignal, say?: (line: string) => void }} [options]
 *   parts: default all, without the demo where there is none; force: from scratch; signal: stops a build under way (the
 *   promise rejects with an AbortError)
 * @throws {BuildError} when a compiler finds errors
 */
export async function buildIfNeeded({
  parts = Object.keys(PARTS).filter((part) => part !== 'demo' || existsSync(join(PROJECT, 'demo'))),
  force = false,
  signal = new AbortController().signal,
  say = console.log,
} = {}) {
  if (!force && (await findStale(parts)).size === 0) return;
  const folder = join(PROJECT, '.build');
  await mkdir(folder, { recursive: true });
  const release = await lockfile.lock(folder, {
    retries: { forever: true, minTimeout: 200, maxTimeout: 200 },
  });
  try {
    // Another process may have built while this one waited for the lock.
    const stale = await findStale(parts, force);
    for (const [part, fingerprint] of stale) {
      signal.throwIfAborted();
      const started = performance.now();
      const { outputs, commands, prepare } = PARTS[part];
      await rm(stampOf(part), { force: true });
      // What the compilers note in an output of what they have written would be wrong for the rest of it.
      if (force || !isComplete(outputs)) {
        for (const path of outputs) await rm(join(PROJECT, path), { recursive: true, force: true });
      }
      await prepare?.();
      for (const command of commands) await runTool(command, signal);
      await writeFile(stampOf(part), fingerprint);
      say(`built ${part} in ${((performance.now() - started) / 1000).toFixed(1)} s`);
    }
  } finally {
    await release();
  }
}

/** Holds the fingerprint of the sources of the last build. */
function stampOf(part) {
  return join(PROJECT, '.build', `${part}.stamp`);
}

function isComplete(outputs) {
  return outputs.every((path) => existsSync(join(PROJECT, path)));
}

/** The parts to build, each with the fingerprint of its sources. */
async function findStale(parts, force = false) {
  const stale = new Map();
  for (const part of Object.keys(PARTS).filter((name) => parts.includes(name))) {
    const { sources, outputs } = PARTS[part];
    const fingerprint = await computeFingerprint(sources);
    const built = await readFile(stampOf(part), 'utf8').catch(() => undefined);
    if (force || built !== fingerprint || !isComplete(outputs)) {
      stale.set(part, fingerprint);
    }
  }
  return stale;
}

/** SHA-256 over names and contents of the sources. */
async function computeFingerprint(sources) {
  const hash = createHash('sha256');
  for (const source of sources) {
    const entries = await readdir(join(PROJECT, source), { recursive: true, withFileTypes: true }).catch(
      () => [],
    );
    const files = entries
      .filter((entry) => entry.isFile())
      .map((entry) => relative(PROJECT, join(entry.parentPath ?? entry.path, entry.name)))
      .filter((path) => !/^packages.[^/\\]+.(dist|node_modules)\b/.test(path) && path !== CLIENT_TYPES);
    for (const path of entries.length === 0 ? [source] : files.toSorted()) {
      hash
        .update(`${path}\0`)
        .update(await readFile(join(PROJECT, path)).catch(() => ''))
        .update('\0');
    }
  }
  return hash.digest('hex');
}

async function writeNestConfiguration() {
  const configuration = JSON.parse(await readFile(join(PROJECT, 'nest-cli.json'), 'utf8'));
  configuration.compilerOptions.deleteOutDir = false;
  await writeFile(join(PROJECT, NEST_CONFIGURATION), JSON.stringify(configuration));
}

async function generateClientTypes() {
  const { default: openapiTypescript, astToString } = await import('openapi-typescript');
  const document = JSON.parse(await readFile(join(PROJECT, 'openapi.json'), 'utf8'));
  const types = astToString(await openapiTypescript(document, { alphabetize: true }));
  await writeFile(join(PROJECT, CLIENT_TYPES), `// Generated from openapi.json.\n\n${types}`);
}

/** @throws BuildError when it ends with errors, which it has printed */
async function runTool([path, ...argv], signal) {
  const tool = join(PROJECT, 'node_modules', path);
  if (!existsSync(tool)) throw new BuildError('the build tools are missing: run "npm ci" first');
  const child = spawn(process.execPath, [tool, ...argv], {
    cwd: PROJECT,
    // Vite builds for development when the environment says so.
    env: { ...process.env, NODE_ENV: 'production' },
    stdio: ['ignore', 'inherit', 'inherit'],
    signal,
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new BuildError(`the build failed (exit code ${code})`);
}

/** Whether this module is the program, also when it was called by a path with symbolic links. @param {string} url its own */
export function isProgram(url) {
  const [, script] = process.argv;
  return script !== undefined && existsSync(script) && realpathSync(script) === fileURLToPath(url);
}

if (isProgram(import.meta.url)) {
  const argv = process.argv.slice(2);
  const parts = argv.filter((word) => word in PARTS);
  try {
    await buildIfNeeded({ force: argv.includes('--force'), ...(parts.length > 0 && { parts }) });
  } catch (error) {
    console.error(error instanceof BuildError ? error.message : error);
    process.exitCode = 1;
  }
}
