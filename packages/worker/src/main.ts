#!/usr/bin/env node
import { standardError, standardOutput } from '@longshore/common/line-output';
import { proxyFor, useEnvironmentProxy } from '@longshore/common/environment-proxy';
import { loadEnvFile } from '@longshore/common/settings/env-file';
import { answerWithoutStarting } from '@longshore/common/settings/help';
import { SettingsError } from '@longshore/common/settings/setting';
import { unknownVariables } from '@longshore/common/settings/unknown-variables';
import { startTracing } from '@longshore/common/tracing/start-tracing';
import { tracingProblems } from '@longshore/common/tracing/tracing-variables';
import { takeIdentity } from './process/worker-identity.js';
import { createWorkerLog } from './process/worker-log.js';
import { Worker } from './worker.js';
import { SYSTEM_CLOCK } from './process/clock.js';
import { HttpServiceApi } from './service-api/http-service-api.js';
import { chooseExecutor } from './choose-executor.js';
import { loadWorkerSettings, WORKER_SETTINGS } from './settings/worker-settings.js';
import { errorText } from '@longshore/common/errors';

const USAGE_ERROR = 2;

/** @returns the exit code */
async function main(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const answer = answerWithoutStarting('npm run worker -- [flags]', WORKER_SETTINGS, argv);
  if (answer !== undefined) {
    standardOutput.write(answer);
    return 0;
  }
  loadEnvFile();
  const settings = loadWorkerSettings(argv, env);
  const problems = tracingProblems(env);
  if (problems.length > 0) throw new SettingsError(problems);
  const shutdown = new AbortController();
  // Repeated signals change nothing: npm passes on signals that the process group has got already.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => shutdown.abort());

  const { serviceUrl, apiKey } = settings;
  const identity = takeIdentity(settings);
  const logger = createWorkerLog({ ...settings, ...identity });
  for (const problem of unknownVariables(env)) logger.warn(problem);
  await useEnvironmentProxy(env);
  const tracing = await startTracing(env, {
    name: 'longshore-worker',
    warn: (reason) => logger.warn({ reason }, 'spans of traces may be lost'),
  });
  const executor = await chooseExecutor({ settings, ...identity, env, logger, signal: shutdown.signal });
  if (executor === null || shutdown.signal.aborted) return 0;
  logger.info({ service: serviceUrl, proxy: proxyFor(serviceUrl, env) }, 'the worker starts');

  const worker = new Worker({
    settings,
    workerId: identity.workerId,
    api: new HttpServiceApi({ baseUrl: serviceUrl, apiKey, maxBytes: settings.maxAnswerBytes }),
    createExecutor: executor.create,
    clock: SYSTEM_CLOCK,
    logger,
    random: Math.random,
    tracing,
  });
  shutdown.signal.addEventListener('abort', () => worker.shutDown());
  const exitCode = await worker.run();
  await executor.close();
  await tracing?.close();
  return exitCode;
}

try {
  process.exit(await main(process.argv.slice(2), process.env));
} catch (error) {
  const problems = error instanceof SettingsError ? error.problems : [errorText(error)];
  standardError.write(`${problems.join('\n')}\n`);
  process.exit(error instanceof SettingsError ? USAGE_ERROR : 1);
}
