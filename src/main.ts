import 'reflect-metadata';
import { once } from 'node:events';
import { createLog } from './logging/logger.js';
import { RELOAD_CHILD, runWithReload } from './reload-supervisor.js';
import { serve, type RunningService } from './serve.js';
import { loadDotenv } from './settings/dotenv.js';
import { answerWithoutStarting } from './settings/help.js';
import { loadSettings, SettingsError } from './settings/load-settings.js';
import type { Settings } from './settings/settings.js';
import { UnknownScheduler } from './workers/strategies/scheduler.js';

const USAGE_ERROR = 2;

async function main(argv: readonly string[]): Promise<number> {
  const answer = answerWithoutStarting(argv);
  if (answer !== undefined) {
    process.stdout.write(answer);
    return 0;
  }
  loadDotenv();
  const settings = loadSettings(argv, process.env);
  return settings.reload && process.env[RELOAD_CHILD] === undefined
    ? runWithReload(argv, process.env)
    : runService(settings);
}

async function runService(settings: Settings): Promise<number> {
  const log = createLog(settings);
  const stop = new AbortController();
  // Every further signal changes nothing: npm passes on what the process group got already.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop.abort());
  let service: RunningService;
  try {
    service = await serve(settings, log, stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    // Ctrl-C also reaches the programs that make the database: their failure is no failure of ours.
    log.info('stopped before it was ready', error === stop.signal.reason ? {} : { error });
    return 0;
  }
  // Whoever starts the service waits for this line, whatever SERVICE_LOG_LEVEL says.
  createLog({ logLevel: 'info' }).info(`listening on ${service.url} (API description at /docs)`);
  if (!stop.signal.aborted) await once(stop.signal, 'abort');
  log.info('stopping');
  await service.stop();
  log.info('stopped');
  return 0;
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  const problems =
    error instanceof SettingsError
      ? error.problems
      : [String(error instanceof Error ? error.message : error)];
  process.stderr.write(`${problems.join('\n')}\n`);
  process.exit(error instanceof SettingsError || error instanceof UnknownScheduler ? USAGE_ERROR : 1);
}
