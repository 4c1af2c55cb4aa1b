import 'reflect-metadata';
import cluster from 'node:cluster';
import { once } from 'node:events';
import { standardError, standardOutput } from '@longshore/common/line-output';
import { answerWithoutStarting } from '@longshore/common/settings/help';
import { SettingsError } from '@longshore/common/settings/setting';
import { unknownVariables } from '@longshore/common/settings/unknown-variables';
import { tracingProblems } from '@longshore/common/tracing/tracing-variables';
import { createLog } from '../common/logging/logger.js';
import { SETTING_KEYS } from '../config/settings.js';
import { SettingsModule } from '../config/settings.module.js';
import { SERVER_PROCESS } from './cluster/messages.js';
import { PrimaryLink } from './cluster/primary-link.js';
import { ServerProcessFailed } from './cluster/server-process.js';
import type { RunningService, StartContext } from './open-database.js';
import { RELOAD_CHILD, runWithReload } from './reload.js';
import { errorText } from '@longshore/common/errors';

const USAGE_ERROR = 2;

/**
 * Runs the service, or one of its server processes, from its settings to its end.
 * @param argv arguments after the script's name
 * @param stop stops the service
 * @returns the exit code: 0 after a stop, 2 for invalid settings, 1 for another failure, which is printed to standard error
 */
export async function runProgram(argv: readonly string[], stop: AbortSignal): Promise<number> {
  if (cluster.isWorker && process.env[SERVER_PROCESS] !== undefined) return runServerProcess(argv, stop);
  try {
    const answer = answerWithoutStarting('npm start -- [flags]', SETTING_KEYS, argv);
    if (answer !== undefined) {
      standardOutput.write(answer);
      return 0;
    }
    const configuration = await SettingsModule.load(argv);
    const { settings } = configuration;
    const problems = tracingProblems(process.env);
    if (problems.length > 0) throw new SettingsError(problems);
    if (settings.reload && process.env[RELOAD_CHILD] === undefined) return await runWithReload(argv, stop);
    const context: StartContext = { ...configuration, log: createLog(settings), stop };
    const { [RELOAD_CHILD]: _, ...variables } = process.env;
    await runUntilStopped(context, async () => {
      let start: () => Promise<RunningService>;
      if (settings.workers > 1) {
        // Imports little of the program: the primary does not run the application.
        const { serveCluster } = await import('./cluster/serve-cluster.js');
        start = () => serveCluster(context, argv);
      } else {
        const { serve } = await import('./serve.js');
        start = () => serve(context);
      }
      // Where node_modules is a link, Node.js 20 gives CommonJS packages without exports to what is loaded after a line of the log.
      for (const problem of unknownVariables(variables)) context.log.warn(problem);
      const service = await start();
      // Printed at every log level, because scripts wait for it.
      createLog({ logLevel: 'info' }).info(
        `listening on ${service.url} (dashboard at /ui/, API description at /docs)`,
      );
      return service;
    });
    return 0;
  } catch (error) {
    const { problems, exitCode } = failureOf(error);
    standardError.write(`${problems.join('\n')}\n`);
    return exitCode;
  }
}

/** Uses the environment of the primary, which has loaded the .env file, so that all processes have the same settings. */
async function runServerProcess(argv: readonly string[], signal: AbortSignal): Promise<number> {
  const primary = new PrimaryLink();
  try {
    const configuration = await SettingsModule.load(argv, process.env);
    const stop = AbortSignal.any([signal, primary.lost]);
    const context: StartContext = { ...configuration, log: createLog(configuration.settings), stop };
    await runUntilStopped(context, async () => (await import('./serve.js')).serve(context, primary));
    await primary.sendCounts();
    return 0;
  } catch (error) {
    const { problems, exitCode } = failureOf(error);
    await primary.fail(problems);
    return exitCode;
  }
}

async function runUntilStopped(
  { log, stop }: StartContext,
  start: () => Promise<RunningService>,
): Promise<void> {
  let service: RunningService;
  try {
    service = await start();
  } catch (error) {
    if (!stop.aborted) throw error;
    // Ctrl-C also ends initdb, whose failure is not an error then.
    log.info('stopped before it was ready', error === stop.reason ? {} : { error });
    return;
  }
  if (!stop.aborted) await once(stop, 'abort');
  log.info('stopping');
  await service.stop();
  log.info('stopped');
}

function failureOf(error: unknown): Pick<ServerProcessFailed, 'problems' | 'exitCode'> {
  if (error instanceof ServerProcessFailed) return error;
  if (error instanceof SettingsError) return { problems: error.problems, exitCode: USAGE_ERROR };
  return { problems: [errorText(error)], exitCode: 1 };
}
