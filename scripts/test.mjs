/* oxlint-disable no-console -- a command for the terminal */
// `npm test -- [part of a path ...] [--only unit|integration|api|e2e]`: builds, starts one throw-away PostgreSQL,
// runs every spec of dist/ in a process of its own, and ends with one line: N passed, N failed[, N skipped].
import { spawn } from 'node:child_process';
import { createReadStream, existsSync, readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs, parseEnv } from 'node:util';
import { BuildError, buildIfNeeded } from './build-if-needed.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const DIST = join(ROOT, 'dist');
const KINDS = ['unit', 'integration', 'api', 'e2e'];
const PARALLEL = 2;
const FILE_TIMEOUT_MS = Number(process.env.TEST_FILE_TIMEOUT_MS ?? 300_000);
const STOP_GRACE_MS = 10_000;
/** Output kept of one test process, in characters: the end of it, where the cause usually is. */
const OUTPUT_KEPT = 16_000;

/** Variables that would change what the tests see. */
const SETTINGS = /^(?:SERVICE_|OTEL_|DATABASE_URL$|NODE_TEST_CONTEXT$)/;

/** Test processes that are running. */
const running = new Set();
const interrupted = new AbortController();

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      options: { only: { type: 'string', multiple: true } },
      allowPositionals: true,
    });
    const unknown = values.only?.find((kind) => !KINDS.includes(kind));
    if (unknown !== undefined) {
      throw new Error(`--only must be one of ${KINDS.join(', ')}, got "${unknown}"`);
    }
    return { kinds: values.only ?? KINDS, filters: positionals };
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
async function findSpecs({ kinds, filters }) {
  const packages = await readdir(join(ROOT, 'packages')).catch(() => []);
  const folders = [
    'dist',
    ...packages.flatMap((name) => ['dist', 'build'].map((output) => join('packages', name, output))),
  ];
  const entries = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(join(ROOT, folder), { recursive: true }).catch(() => [])).map((path) =>
        join(folder, path),
      ),
    ),
  );
  return entries
    .flat()
    .filter((path) => path.endsWith('.spec.js') && kinds.includes(kindOf(path)))
    .filter(
      (path) => filters.length === 0 || filters.some((part) => path.includes(part.replace(/\.ts$/, '.js'))),
    )
    .toSorted();
}

/**
 * Settings of the person who runs the tests must not reach them: not from the environment, and not from a .env file,
 * whose variables are given as empty ones, which the service takes for unset.
 */
function testEnvironment(databaseUrl) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !SETTINGS.test(name)));
  const file = join(ROOT, '.env');
  for (const name of existsSync(file) ? Object.keys(parseEnv(readFileSync(file, 'utf8'))) : []) {
    if (SETTINGS.test(name)) {
      env[name] = '';
    }
  }
  return databaseUrl === undefined ? env : { ...env, TEST_DATABASE_URL: databaseUrl };
}

function killGroup(child, signal) {
  try {
    // The whole group: a test may have started processes of its own.
    process.kill(-child.pid, signal);
  } catch {
    child.kill(signal);
  }
}

/** Runs one spec file. @returns its tests and everything it printed */
async function runSpec(path, env, folder) {
  const resultFile = join(folder, `${path.replaceAll(/[/\\]/g, '_')}.jsonl`);
  const began = performance.now();
  const child = spawn(
    process.execPath,
    [
      '--enable-source-maps',
      `--test-reporter=${join(ROOT, 'scripts', 'test-reporter.mjs')}`,
      `--test-reporter-destination=${resultFile}`,
      join(ROOT, path),
    ],
    { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true },
  );
  running.add(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output = (output + text).slice(-OUTPUT_KEPT);
    });
  }
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    killGroup(child, 'SIGKILL');
  }, FILE_TIMEOUT_MS);
  const closed = new Promise((resolve) => child.once('close', resolve));
  const end = await new Promise((resolve) => {
    child.once('error', (error) => resolve(`could not be started: ${error.message}`));
    child.once('exit', (code, signal) => resolve(signal === null ? code : `was ended by ${signal}`));
  });
  clearTimeout(timer);
  running.delete(child);
  // What the file left behind would hold ports and databases while the next ones run.
  killGroup(child, 'SIGKILL');
  // A process outside the group may hold the pipes open for ever.
  await Promise.race([closed, sleep(500, undefined, { ref: false })]);

  const { tests, notes, complete } = await readResults(resultFile);
  const failed = tests.some((test) => test.status === 'failed');
  if (timedOut) {
    tests.push(fileFailure(path, `did not end within ${FILE_TIMEOUT_MS / 1000} s`));
  } else if (typeof end === 'string') {
    tests.push(fileFailure(path, end));
  } else if (end === 0 && tests.length === 0) {
    tests.push(fileFailure(path, 'holds no test'));
  } else if (!complete) {
    tests.push(fileFailure(path, `exited with code ${end} before its tests were through`));
  } else if (end !== 0 && !failed) {
    tests.push(fileFailure(path, `exited with code ${end} though no test failed`));
  }
  return { path, tests, output: [...notes, output].join('\n'), seconds: (performance.now() - began) / 1000 };
}

function fileFailure(path, text) {
  return { status: 'failed', name: `the file ${path}`, text: `the file ${text}` };
}

async function readResults(file) {
  const lines = [];
  try {
    for await (const line of createInterface({ input: createReadStream(file) })) {
      lines.push(JSON.parse(line));
    }
  } catch {
    // A file that never started has no results; one that was killed may end in half a line.
  }
  return {
    tests: lines.filter((line) => line.name !== undefined),
    notes: lines.filter((line) => line.status === 'note').map((line) => line.text),
    complete: lines.some((line) => line.status === 'end'),
  };
}

function count(tests, status) {
  return tests.filter((test) => test.status === status).length;
}

function summary(tests) {
  const skipped = count(tests, 'skipped');
  return `${count(tests, 'passed')} passed, ${count(tests, 'failed')} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

function printFile({ path, tests, output, seconds }) {
  const failed = tests.filter((test) => test.status === 'failed');
  console.log(`${failed.length > 0 ? 'FAIL' : 'ok  '} ${path} (${summary(tests)}, ${seconds.toFixed(1)} s)`);
  for (const test of failed) {
    console.log(`\n  FAILED ${test.name}\n${test.text.replaceAll(/^/gm, '    ')}\n`);
  }
  if (failed.length > 0 && output.trim() !== '') {
    console.log(`  What the file printed:\n${output.trimEnd().replaceAll(/^/gm, '    | ')}\n`);
  }
}

async function runAll(paths, parallel, env, folder) {
  const waiting = [...paths];
  const results = [];
  const lane = async () => {
    for (
      let path = waiting.shift();
      path !== undefined && !interrupted.signal.aborted;
      path = waiting.shift()
    ) {
      const result = await runSpec(path, env, folder);
      if (!interrupted.signal.aborted) {
        printFile(result);
        results.push(...result.tests);
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

/** Lets the tests' processes end by themselves, then ends them. */
async function stopRunning() {
  const children = [...running];
  const gone = Promise.all(children.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  children.forEach((child) => killGroup(child, 'SIGTERM'));
  const timer = setTimeout(() => children.forEach((child) => killGroup(child, 'SIGKILL')), STOP_GRACE_MS);
  await gone;
  clearTimeout(timer);
}

async function main() {
  const wanted = readArguments();
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
    const env = testEnvironment(cluster.url);
    const endToEnd = paths.filter((path) => kindOf(path) === 'e2e');
    const others = paths.filter((path) => kindOf(path) !== 'e2e');
    const tests = [
      ...(await runAll(others, PARALLEL, env, folder)),
      ...(await runAll(endToEnd, 1, env, folder)),
    ];
    return { tests, ok: !tests.some((test) => test.status === 'failed') };
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

let outcome = { tests: [], ok: false };
try {
  outcome = await main();
} catch (error) {
  if (!interrupted.signal.aborted) {
    console.error(error instanceof BuildError ? error.message : error);
  }
}
const skipped = outcome.tests.filter((test) => test.status === 'skipped');
for (const test of skipped) {
  console.log(`skipped: ${test.name}${test.text === '' ? '' : ` (${test.text})`}`);
}
const ran = outcome.tests.some((test) => test.status !== 'skipped');
const code = interrupted.signal.aborted ? 130 : outcome.ok && ran ? 0 : 1;
process.stdout.write(`${summary(outcome.tests)}\n`, () => process.exit(code));
