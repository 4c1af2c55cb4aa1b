/* oxlint-disable no-console -- a command for the terminal */
// Runs compiled specs in processes of their own, for scripts/test.mjs.
import { spawn } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** A file of the tier `soak` may take longer. */
const FILE_TIMEOUTS_MS = { soak: 900_000, usual: 300_000 };
const STOP_GRACE_MS = 10_000;
/** Output kept of one test process, in characters: the end of it, where the cause usually is. */
const OUTPUT_KEPT = 16_000;

/** Test processes that are running. */
const running = new Set();

/** One form for a spec, its compiled file and a part of either: `packages/worker/src/log` is compiled below `dist`. */
export function compiledPath(path) {
  return path
    .replace(/\.ts$/, '.js')
    .replace(/^(packages[/\\][^/\\]+[/\\])(?:dist|build)([/\\]|$)/, '$1src$2')
    .replace(/^dist[/\\]/, '');
}

export function count(tests, status) {
  return tests.filter((test) => test.status === status).length;
}

/** Runs spec files in one process, and each in its own when that process fails. @returns the results of each file */
export async function runSpecs(paths, options) {
  const { signal } = options;
  const { tests, failure, ...rest } = await runProcess(paths, options);
  printCoverage(rest.coverage);
  if (paths.length === 1) {
    const [path] = paths;
    if (failure !== undefined) {
      tests.push(fileFailure(path, failure));
    } else if (tests.length === 0 && options.name === undefined) {
      tests.push(fileFailure(path, 'holds no test'));
    }
    return [{ path, tests, ...rest }];
  }
  const byFile = failure === undefined ? groupByFile(tests, paths) : new Map();
  const timesByFile = groupByFile(rest.times, paths);
  const results = [];
  for (const path of paths.filter(() => !signal.aborted)) {
    const own = byFile.get(path);
    if (own === undefined && options.name === undefined) {
      results.push(...(await runSpecs([path], options)));
    } else {
      const ms = (timesByFile.get(path) ?? []).reduce((total, time) => total + time.ms, 0);
      results.push({ path, tests: own ?? [], ...rest, seconds: ms / 1000 });
    }
  }
  if (
    failure !== undefined &&
    !signal.aborted &&
    !results.some((result) => count(result.tests, 'failed') > 0)
  ) {
    const text = `${failure} when these files ran in one process`;
    results.push({ path: paths.join(' '), tests: [fileFailure(paths.join(' '), text)], ...rest });
  }
  return results;
}

async function runProcess(paths, { env, folder, name, tier, inspect, coverage }) {
  const timeoutMs = Number(
    process.env.TEST_FILE_TIMEOUT_MS ?? FILE_TIMEOUTS_MS[tier] ?? FILE_TIMEOUTS_MS.usual,
  );
  const resultFile = join(folder, `${paths[0].replaceAll(/[/\\]/g, '_')}-${paths.length}.jsonl`);
  const started = performance.now();
  const argv =
    paths.length === 1
      ? paths.map((path) => join(ROOT, path))
      : [join(ROOT, 'scripts', 'run-specs.mjs'), ...paths];
  const child = spawn(
    process.execPath,
    [
      '--enable-source-maps',
      ...(name === undefined ? [] : [`--test-name-pattern=${name}`]),
      ...(inspect ? ['--inspect-brk'] : []),
      ...(coverage ? ['--experimental-test-coverage'] : []),
      `--test-reporter=${join(ROOT, 'scripts', 'test-reporter.mjs')}`,
      `--test-reporter-destination=${resultFile}`,
      ...argv,
    ],
    { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true },
  );
  running.add(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output = (output + text).slice(-OUTPUT_KEPT);
      if (inspect) process.stdout.write(text);
    });
  }
  let timedOut = false;
  const timer = setTimeout(
    () => {
      timedOut = true;
      killGroup(child, 'SIGKILL');
    },
    inspect ? 2 ** 31 - 1 : timeoutMs,
  );
  const closed = new Promise((resolve) => child.once('close', resolve));
  const end = await new Promise((resolve) => {
    child.once('error', (error) => resolve(`could not be started: ${error.message}`));
    child.once('exit', (code, signal) => resolve(signal === null ? code : `was ended by ${signal}`));
  });
  clearTimeout(timer);
  running.delete(child);
  // What the files left behind would hold ports and databases while the next ones run.
  killGroup(child, 'SIGKILL');
  // A process outside the group may hold the pipes open.
  await Promise.race([closed, sleep(500, undefined, { ref: false })]);

  const results = await readResults(resultFile);
  let failure;
  if (timedOut) {
    failure = `did not end within ${timeoutMs / 1000} s`;
  } else if (typeof end === 'string') {
    failure = end;
  } else if (end !== 0 && results.tests.length === 0) {
    failure = `exited with code ${end}`;
  } else if (!results.complete && (end !== 0 || results.tests.length > 0 || paths.length > 1)) {
    failure = `exited with code ${end} before its tests were through`;
  } else if (end !== 0 && count(results.tests, 'failed') === 0) {
    failure = `exited with code ${end} though no test failed`;
  }
  return {
    tests: results.tests,
    failure,
    coverage: results.coverage,
    times: results.times,
    notes: results.notes,
    output: [...results.notes, output].join('\n'),
    seconds: (performance.now() - started) / 1000,
  };
}

/** Results of each file by the file that defines their test; source maps turn `dist/x.spec.js` into `x.spec.ts`. */
function groupByFile(results, paths) {
  const groups = new Map();
  for (const result of results) {
    const path =
      paths.find((one) => result.file === join(ROOT, one)) ??
      paths.find(
        (one) =>
          result.file !== undefined && compiledPath(result.file.slice(ROOT.length + 1)) === compiledPath(one),
      ) ??
      paths[0];
    groups.set(path, [...(groups.get(path) ?? []), result]);
  }
  return groups;
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
    times: lines.filter((line) => line.status === 'time'),
    coverage: lines.find((line) => line.status === 'coverage')?.files ?? [],
    complete: lines.some((line) => line.status === 'end'),
  };
}

/** Covered lines and branches of the code of the project, in the tests' own process. */
function printCoverage(files) {
  for (const { path, coveredLinePercent, coveredBranchPercent } of files) {
    const local = path.slice(ROOT.length + 1);
    if (/^(?:dist[/\\]src|packages)[/\\]/.test(local) && !local.endsWith('.spec.js')) {
      const [lines, branches] = [coveredLinePercent, coveredBranchPercent].map((value) =>
        value.toFixed(0).padStart(4),
      );
      console.log(
        `${lines} % of lines, ${branches} % of branches  ${compiledPath(local).replace(/js$/, 'ts')}`,
      );
    }
  }
}

function killGroup(child, signal) {
  try {
    // The whole group: a test may have started processes of its own.
    process.kill(-child.pid, signal);
  } catch {
    child.kill(signal);
  }
}

/** Lets the tests' processes end by themselves, then ends them. */
export async function stopRunning() {
  const children = [...running];
  const gone = Promise.all(children.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  children.forEach((child) => killGroup(child, 'SIGTERM'));
  const timer = setTimeout(() => children.forEach((child) => killGroup(child, 'SIGKILL')), STOP_GRACE_MS);
  await gone;
  clearTimeout(timer);
}
