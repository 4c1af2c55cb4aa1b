import 'reflect-metadata';
import { parseArgs } from 'node:util';
import { standardError } from '@longshore/common/line-output';
import { loadEnvFile } from '@longshore/common/settings/env-file';
import { SettingsError } from '@longshore/common/settings/setting';
import { loadSettings } from '../src/config/settings.module.js';
import { ChildEnded } from '@longshore/common/child-program';
import { Demo } from './demo.js';
import { openTerminal } from './terminal.js';
import { errorText } from '@longshore/common/errors';

const USAGE = `Usage: npm run demo [-- --exit]

Starts the service on the embedded PostgreSQL and one worker, creates a run of each example, shows their progress, and keeps
serving until Ctrl-C.

  --exit      End after the runs; exit code 0 when they ended as expected, 1 otherwise.
  --help, -h  Print this text.
`;

const USAGE_ERROR = 2;

/** The demo was interrupted. */
class Stopped extends Error {}

/** @returns the exit code */
async function main(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: { exit: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h' } },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return 0;
  }
  loadEnvFile();
  const settings = loadSettings([], { ...env, DATABASE_URL: '', SERVICE_API_KEYS: '' });
  const stop = new AbortController();
  // Every further signal changes nothing: npm passes on what the process group got already.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => stop.abort(new Stopped(signal)));
  }
  // Standard output was closed: a closed terminal, or `| head`.
  process.stdout.on('error', () => stop.abort(new Stopped('standard output was closed')));

  const terminal = openTerminal(process.stdout, env);
  const demo = new Demo({ settings, env, terminal, stop: stop.signal });
  let code = 1;
  try {
    const problems = await demo.run();
    for (const problem of problems) terminal.say(`NOT AS EXPECTED  ${problem}`);
    if (problems.length === 0) terminal.say('every run ended as expected');
    code = problems.length === 0 ? 0 : 1;
    if (!values.exit) await demo.serve();
  } catch (error) {
    if (error instanceof Stopped) {
      terminal.say(`\n${error.message}`);
      // With --exit the code speaks of the runs, which have not ended.
      code = values.exit ? 1 : 0;
    } else {
      complain(error);
      code = 1;
    }
  }
  terminal.say('stopping the worker, the service and its database');
  const leftovers = await demo.close();
  for (const problem of leftovers) complain(new Error(problem));
  terminal.say('stopped');
  return leftovers.length > 0 ? 1 : code;
}

function complain(error: unknown): void {
  if (!(error instanceof ChildEnded)) {
    standardError.write(`${errorText(error)}\n`);
    return;
  }
  const tail = error.tail.map((line) => `  | ${line}\n`).join('');
  standardError.write(`${error.message}. The end of its log:\n${tail || '  (it printed nothing)\n'}`);
}

try {
  process.exit(await main(process.argv.slice(2), process.env));
} catch (error) {
  const isUsage =
    error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS');
  complain(isUsage ? new Error(`${error.message}\n\n${USAGE}`) : error);
  process.exit(isUsage || error instanceof SettingsError ? USAGE_ERROR : 1);
}
