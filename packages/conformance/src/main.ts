#!/usr/bin/env node
import { parseArgs } from 'node:util';
import { standardError, standardOutput } from '@longshore/common/line-output';
import { ConformanceKit, type ScenarioResult } from './kit.js';
import type { Scenario } from './scenario.js';
import { SCENARIOS } from './scenarios/all.js';
import { errorText } from '@longshore/common/errors';

const USAGE = `Usage: npm run worker:conformance -- --command "python3 worker.py" [--only NAME,...]

Puts a worker to the test against a real service on the embedded PostgreSQL: docs/worker-protocol.md.

  --command   Starts the worker; a shell command for one program.
  --only      Runs only these scenarios.
  --list      Prints the scenarios.
  --help, -h  Print this text.

Exit code 0: all passed; 1: something failed, or was interrupted; 2: wrong usage.
`;

const USAGE_ERROR = 2;

class UsageError extends Error {}

/** @returns the exit code */
async function main(argv: readonly string[]): Promise<number> {
  const { command, only, list, help } = readArguments(argv);
  if (help) {
    standardOutput.write(USAGE);
    return 0;
  }
  if (list) {
    for (const { name, promise } of SCENARIOS) standardOutput.write(`${name.padEnd(18)} ${promise}\n`);
    return 0;
  }
  if (command === '') throw new UsageError('--command is missing');
  const interrupted = new Promise<never>((_resolve, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => reject(new Error(`interrupted by ${signal}`)));
    }
  });
  interrupted.catch(() => undefined);
  const kit = await ConformanceKit.start(process.env);
  try {
    const results = await Promise.race([runAll(kit, selectScenarios(only), command), interrupted]);
    standardOutput.write(`${summaryLine(results)}\n`);
    return results.every(({ problem }) => problem === null) ? 0 : 1;
  } finally {
    await kit.close();
  }
}

async function runAll(
  kit: ConformanceKit,
  scenarios: readonly Scenario[],
  command: string,
): Promise<ScenarioResult[]> {
  const results: ScenarioResult[] = [];
  for (const scenario of scenarios) {
    const result = await kit.run(scenario, command);
    standardOutput.write(`${reportLine(result)}\n`);
    results.push(result);
  }
  return results;
}

function selectScenarios(only: string): readonly Scenario[] {
  if (only === '') return SCENARIOS;
  const names = only.split(',').map((name) => name.trim());
  const unknown = names.filter((name) => SCENARIOS.every((scenario) => scenario.name !== name));
  if (unknown.length > 0) throw new UsageError(`--only: no scenario is called ${unknown.join(', ')}`);
  return SCENARIOS.filter(({ name }) => names.includes(name));
}

function readArguments(argv: readonly string[]): {
  command: string;
  only: string;
  list: boolean;
  help: boolean;
} {
  try {
    const { values } = parseArgs({
      args: [...argv],
      options: {
        command: { type: 'string', default: '' },
        only: { type: 'string', default: '' },
        list: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    return values;
  } catch (error) {
    throw new UsageError(errorText(error));
  }
}

/** A line per scenario; after a failure also the reason and the end of the worker's output. */
function reportLine({ name, promise, seconds, problem, printed }: ScenarioResult): string {
  const head = `${problem === null ? 'ok  ' : 'FAIL'}  ${name.padEnd(18)} ${seconds.toFixed(1).padStart(5)} s  ${promise}`;
  if (problem === null) return head;
  const log = printed.trimEnd() === '' ? '(it printed nothing)' : printed.trimEnd();
  return `${head}\n      ${problem}\n      What the worker printed last:\n${log.replaceAll(/^/gm, '      | ')}`;
}

function summaryLine(results: readonly ScenarioResult[]): string {
  const failed = results.filter(({ problem }) => problem !== null).map(({ name }) => name);
  const seconds = results.reduce((sum, result) => sum + result.seconds, 0);
  const verdict = failed.length === 0 ? 'the worker conforms' : `it does not conform: ${failed.join(', ')}`;
  return `${results.length - failed.length} of ${results.length} passed in ${seconds.toFixed(0)} s: ${verdict}`;
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  const isUsage = error instanceof UsageError;
  const text = errorText(error);
  standardError.write(isUsage ? `${text}\n\n${USAGE}` : `${text}\n`);
  process.exit(isUsage ? USAGE_ERROR : 1);
}
