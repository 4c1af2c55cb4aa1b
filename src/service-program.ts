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

/**
 * Runs the service from its settings to its end.
 * @param argv arguments after the script's name
 * @param stop aborts when the service is told to end
 * @returns the exit code: 0 after a stop, 2 for wrong settings, 1 for any other failure, which standard error tells
 */
export async function runProgram(argv: readonly string[], stop: AbortSignal): Promise<number> {
  try {
    const answer = answerWithoutStarting(argv);
    if (answer !== undefined) {
      process.stdout.write(answer);
      return 0;
    }
    loadDotenv();
    const settings = loadSettings(argv, process.env);
    return settings.reload && process.env[RELOAD_CHILD] === undefined
      ? await runWithReload(argv, process.env)
      : await runService(settings, stop);
  } catch (error) {
    const problems =
      error instanceof SettingsError
        ? error.problems
        : [String(error instanceof Error ? error.message : error)];
    process.stderr.write(`${problems.join('\n')}\n`);
    return error instanceof SettingsError || error instanceof UnknownScheduler ? USAGE_ERROR : 1;
  }
}

async function runService(settings: Settings, stop: AbortSignal): Promise<number> {
  const log = createLog(settings);
  let service: RunningService;
  try {
    service = await serve({ settings, log, stop });
  } catch (error) {
    if (!stop.aborted) throw error;
    // Ctrl-C also reaches the programs that make the database: their failure is no failure of ours.
    log.info('stopped before it was ready', error === stop.reason ? {} : { error });
    return 0;
  }
  // Whoever starts the service waits for this line, whatever SERVICE_LOG_LEVEL says.
  createLog({ logLevel: 'info' }).info(`listening on ${service.url} (API description at /docs)`);
  if (!stop.aborted) await once(stop, 'abort');
  log.info('stopping');
  await service.stop();
  log.info('stopped');
  return 0;
}
