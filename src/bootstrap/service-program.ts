import 'reflect-metadata';
import cluster from 'node:cluster';
import { once } from 'node:events';
import { SERVER_PROCESS } from './cluster/cluster-messages.js';
import { PrimaryLink } from './cluster/primary-link.js';
import { ServerProcessFailed } from './cluster/server-process-failed.js';
import { createLog, type Log } from '../common/logging/logger.js';
import type { StartContext } from './open-database.js';
import { RELOAD_CHILD, runWithReload } from './reload.js';
import type { RunningService } from './serve.js';
import { answerWithoutStarting } from '@longshore/common/settings/help';
import { SettingsError } from '@longshore/common/settings/setting';
import { SETTING_KEYS } from '../config/setting-keys.js';
import { SettingsModule } from '../config/settings.module.js';
import { tracingProblems } from '@longshore/common/tracing/tracing-variables';

const USAGE_ERROR = 2;

/**
 * Runs the service from its settings to its end, or one of its several server processes.
 * @param argv arguments after the script's name
 * @param stop aborts when the service is told to end
 * @returns the exit code: 0 after a stop, 2 for wrong settings, 1 for any other failure, which standard error tells
 */
export async function runProgram(argv: readonly string[], stop: AbortSignal): Promise<number> {
  if (cluster.isWorker && process.env[SERVER_PROCESS] !== undefined) return runServerProcess(argv, stop);
  try {
    const answer = answerWithoutStarting('npm start -- [flags]', SETTING_KEYS, argv);
    if (answer !== undefined) {
      process.stdout.write(answer);
      return 0;
    }
    const configuration = await SettingsModule.load(argv);
    const { settings } = configuration;
    const problems = tracingProblems(process.env);
    if (problems.length > 0) throw new SettingsError(problems);
    if (settings.reload && process.env[RELOAD_CHILD] === undefined) {
      return await runWithReload(argv, stop);
    }
    return await runService({ ...configuration, log: createLog(settings), stop }, argv);
  } catch (error) {
    const { problems, exitCode } = failureOf(error);
    process.stderr.write(`${problems.join('\n')}\n`);
    return exitCode;
  }
}

async function runService(context: StartContext, argv: readonly string[]): Promise<number> {
  const { settings, log, stop } = context;
  const service = await startUnlessStopped(context, async () => {
    // The primary of several processes goes without the application, which is most of the program.
    if (settings.workers > 1) return (await import('./cluster/serve-cluster.js')).serveCluster(context, argv);
    return (await import('./serve.js')).serve(context);
  });
  if (service === undefined) return 0;
  // Whoever starts the service waits for this line, whatever SERVICE_LOG_LEVEL says.
  createLog({ logLevel: 'info' }).info(`listening on ${service.url} (API description at /docs)`);
  return untilStopped(service, { log, stop });
}

/** Takes the variables of the primary, which has read the .env file: all processes have the same settings. */
async function runServerProcess(argv: readonly string[], told: AbortSignal): Promise<number> {
  const link = new PrimaryLink();
  try {
    const configuration = await SettingsModule.load(argv, process.env);
    const stop = AbortSignal.any([told, link.lost]);
    const context: StartContext = { ...configuration, log: createLog(configuration.settings), stop };
    const service = await startUnlessStopped(context, async () =>
      (await import('./cluster/serve-as-process.js')).serveAsProcess(context, link),
    );
    if (service === undefined) return 0;
    const exitCode = await untilStopped(service, context);
    await link.leaveCounts();
    return exitCode;
  } catch (error) {
    const { problems, exitCode } = failureOf(error);
    await link.fail(problems, exitCode);
    return exitCode;
  }
}

/** @returns undefined when the start was given up because of the stop */
async function startUnlessStopped(
  { log, stop }: StartContext,
  start: () => Promise<RunningService>,
): Promise<RunningService | undefined> {
  try {
    return await start();
  } catch (error) {
    if (!stop.aborted) throw error;
    // Ctrl-C also reaches the programs that make the database: their failure is no failure of ours.
    log.info('stopped before it was ready', error === stop.reason ? {} : { error });
    return undefined;
  }
}

async function untilStopped(
  service: RunningService,
  { log, stop }: { readonly log: Log; readonly stop: AbortSignal },
): Promise<number> {
  if (!stop.aborted) await once(stop, 'abort');
  log.info('stopping');
  await service.stop();
  log.info('stopped');
  return 0;
}

function failureOf(error: unknown): { readonly problems: readonly string[]; readonly exitCode: number } {
  if (error instanceof ServerProcessFailed) return error;
  if (error instanceof SettingsError) return { problems: error.problems, exitCode: USAGE_ERROR };
  return { problems: [String(error instanceof Error ? error.message : error)], exitCode: 1 };
}
