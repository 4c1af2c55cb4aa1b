/* oxlint-disable no-console -- a command for the terminal */
// `npm test -- [part of a path ...] [--only unit|integration|api|e2e] [--name PATTERN] [--inspect] [--coverage]
// [--notes]`: builds, starts one temporary PostgreSQL, runs the compiled specs, and ends with `N passed, N failed,
// N skipped (tier: T)`. `--tier all` runs every spec at full depth (`--rest`: only what the fast tier left out), `--tier
// soak` searches for rare failures with random seeds. `--notes` prints diagnostics of passing tests, too.
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs, parseEnv } from 'node:util';
import { BuildError, buildIfNeeded } from './build-if-needed.mjs';
import { compiledPath, count, ROOT, runSpecs, stopRunning } from './test-process.mjs';

const DIST = join(ROOT, 'dist');
const KINDS = ['unit', 'integration', 'api', 'e2e'];
const TIERS = ['fast', 'all', 'soak'];
/** Tests wait for the database, so one process more than there are processors keeps those busy. */
const PARALLEL = availableParallelism() + 1;
/** Specs that share a process, and so the time to load Nest and the service. */
const FILES_PER_PROCESS = 6;
/** Specs of the tier `soak` beside those that search deeper: mutation tests. */
const SOAK_SPECS = /(?:conformance-kit|check-history-mutations)\.spec\.js$/;

/** Variables that would change what the tests see. */
const SETTINGS = /^(?:SERVICE_|OTEL_|DATABASE_URL$|NODE_TEST_CONTEXT$)/;

const interrupted = new AbortController();

function readArguments() {
  try {
    const { values, positionals: filters } = parseArgs({
      options: {
        only: { type: 'string', multiple: true },
        tier: { type: 'string', default: 'fast' },
        rest: { type: 'boolean', default: false },
        name: { type: 'string' },
        inspect: { type: 'boolean', default: false },
        coverage: { type: 'boolean', default: false },
        notes: { type: 'boolean', default: false },
      },
      allowPositionals: true,
    });
    for (const [option, allowed, given] of [
      ['only', KINDS, values.only ?? []],
      ['tier', TIERS, [values.tier]],
    ]) {
      const unknown = given.find((value) => !allowed.includes(value));
      if (unknown !== undefined) {
        throw new Error(`--${String(option)} must be one of ${allowed.join(', ')}, got "${unknown}"`);
      }
    }
    return { ...values, filters };
  } catch (error) {
    console.error(error.message);
    return undefined;
  }
}

function kindOf(path) {
  const folder = /^dist[/\\]test[/\\](integration|api|e2e)[/\\]/.exec(path);
  return folder?.[1] ?? 'unit';
}

/** Compiled spec files as paths relative to the project's folder. */
async function findSpecs({ only, tier, rest, filters }) {
  const packages = await readdir(join(ROOT, 'packages')).catch(() => []);
  const folders = [
    'dist',
    ...packages.flatMap((name) => ['dist', 'build'].map((output) => join('packages', name, output))),
  ];
  const paths = [];
  for (const folder of folders) {
    const names = await readdir(join(ROOT, folder), { recursive: true }).catch(() => []);
    paths.push(...names.filter((name) => name.endsWith('.spec.js')).map((name) => join(folder, name)));
  }
  const matches = (path) => filters.some((part) => compiledPath(path).includes(compiledPath(part)));
  const belongs = (path) => {
    if (only !== undefined && !only.includes(kindOf(path))) return false;
    if (filters.length > 0) return matches(path);
    if (tier === 'soak') return usesDepth(path) || SOAK_SPECS.test(path);
    if (tier === 'fast') return only !== undefined || kindOf(path) !== 'e2e' || isSmokeTest(path);
    return !rest || (kindOf(path) === 'e2e' && !isSmokeTest(path)) || usesDepth(path);
  };
  return paths.filter(belongs).toSorted();
}

function isSmokeTest(path) {
  return path.endsWith('smoke.spec.js');
}

/** Whether a spec searches longer in the tiers `all` and `soak` (by test/support/depth.ts, or by itself in a package). */
function usesDepth(path) {
  return /\/support\/depth\.js|LONGSHORE_TEST_TIER'\] ===/.test(readFileSync(join(ROOT, path), 'utf8'));
}

/**
 * The environment of the tests: without the settings of the person who runs them. Those of a .env file are set to the
 * empty string, which the service takes for unset.
 */
function testEnvironment(databaseUrl, tier) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !SETTINGS.test(name)));
  const file = join(ROOT, '.env');
  for (const name of existsSync(file) ? Object.keys(parseEnv(readFileSync(file, 'utf8'))) : []) {
    if (SETTINGS.test(name)) {
      env[name] = '';
    }
  }
  env.LONGSHORE_TEST_TIER = tier;
  return databaseUrl === undefined ? env : { ...env, TEST_DATABASE_URL: databaseUrl };
}

function summary(tests) {
  return ['passed', 'failed', 'skipped'].map((status) => `${count(tests, status)} ${status}`).join(', ');
}

function printFile({ path, tests, notes, output, seconds }, showNotes) {
  const failed = tests.filter((test) => test.status === 'failed');
  console.log(`${failed.length > 0 ? 'FAIL' : 'ok  '} ${path} (${summary(tests)}, ${seconds.toFixed(1)} s)`);
  for (const test of failed) {
    console.log(`\n  FAILED ${test.name}\n${test.text.replaceAll(/^/gm, '    ')}\n`);
  }
  if (showNotes && notes.length > 0) {
    console.log(notes.join('\n').replaceAll(/^/gm, '  '));
  }
  if (failed.length > 0 && output.trim() !== '') {
    console.log(`  Output:\n${output.trimEnd().replaceAll(/^/gm, '    | ')}\n`);
  }
}

/** Not a spec with hooks at the top, which would run for every file of the process, or that changes the environment. */
function canShareProcess(path) {
  return (
    kindOf(path) !== 'e2e' &&
    !/^(?:before|after)(?:Each)?\(|\(process\.env,|traced-app\.js/m.test(
      readFileSync(join(ROOT, path), 'utf8'),
    )
  );
}

/**
 * Takes the next files for one process from the list: every unit spec, then up to FILES_PER_PROCESS others, and fewer
 * towards the end of the list for an even load.
 */
function takeBatch(waiting, { inspect, coverage }) {
  const first = waiting.shift();
  if (first === undefined || inspect || !canShareProcess(first)) {
    return first === undefined ? [] : [first];
  }
  const isUnit = kindOf(first) === 'unit';
  const most = coverage || isUnit ? waiting.length : Math.ceil(waiting.length / (2 * PARALLEL)) - 1;
  const others = waiting
    .filter((path) => (coverage || (kindOf(path) === 'unit') === isUnit) && canShareProcess(path))
    .slice(0, coverage || isUnit ? most : Math.min(most, FILES_PER_PROCESS - 1));
  for (const path of others) {
    waiting.splice(waiting.indexOf(path), 1);
  }
  return [first, ...others];
}

async function runAll(paths, parallel, options) {
  const waiting = [...paths];
  const results = [];
  const lane = async () => {
    while (waiting.length > 0 && !interrupted.signal.aborted) {
      for (const result of await runSpecs(takeBatch(waiting, options), options)) {
        if (!interrupted.signal.aborted) {
          printFile(result, options.notes);
          results.push(...result.tests);
        }
      }
    }
  };
  await Promise.all(Array.from({ length: parallel }, lane));
  return results;
}

async function startCluster(kinds) {
  if (process.env.TEST_DATABASE_URL !== undefined || kinds.every((kind) => kind === 'unit')) {
    return { url: process.env.TEST_DATABASE_URL, stop: async () => {} };
  }
  const module = await import(pathToFileURL(join(DIST, 'test', 'support', 'test-cluster.js')).href);
  return await module.startTestCluster();
}

async function main(wanted) {
  if (wanted === undefined) {
    return { tests: [], ok: false };
  }
  await buildIfNeeded({ root: ROOT, signal: interrupted.signal });
  const paths = await findSpecs(wanted);
  if (paths.length === 0) {
    console.error('no spec file matches');
    return { tests: [], ok: false };
  }
  const folder = await mkdtemp(join(tmpdir(), 'longshore-test-'));
  let cluster;
  try {
    cluster = await startCluster([...new Set(paths.map(kindOf))]);
    const env = testEnvironment(cluster.url, wanted.tier);
    const options = { ...wanted, env, folder, signal: interrupted.signal };
    const [endToEnd, others] = [true, false].map((wants) =>
      paths.filter((path) => (kindOf(path) === 'e2e') === wants),
    );
    const tests = [
      ...(await runAll(others, wanted.inspect ? 1 : PARALLEL, options)),
      ...(await runAll(endToEnd, 1, options)),
    ];
    return { tests, ok: count(tests, 'failed') === 0 };
  } finally {
    await cluster?.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

function onSignal() {
  if (!interrupted.signal.aborted) {
    console.error('interrupted: stopping the tests and their database');
    interrupted.abort();
    void stopRunning();
  }
}

process.on('SIGINT', onSignal);
process.on('SIGTERM', onSignal);

const started = performance.now();
const wanted = readArguments();
let outcome = { tests: [], ok: false };
try {
  outcome = await main(wanted);
} catch (error) {
  if (!interrupted.signal.aborted) {
    console.error(error instanceof BuildError ? error.message : error);
  }
}
for (const test of outcome.tests.filter(({ status }) => status === 'skipped')) {
  console.log(`skipped: ${test.name}${test.text === '' ? '' : ` (${test.text})`}`);
}
const ran = outcome.tests.some((test) => test.status !== 'skipped');
const code = interrupted.signal.aborted ? 130 : outcome.ok && ran ? 0 : 1;
console.log(`${((performance.now() - started) / 1000).toFixed(0)} s`);
process.stdout.write(`${summary(outcome.tests)} (tier: ${wanted?.tier ?? 'fast'})\n`, () =>
  process.exit(code),
);
