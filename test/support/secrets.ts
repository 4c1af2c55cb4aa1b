import { randomBytes } from 'node:crypto';
import { execute } from '../../src/database/sql.js';
import { RunSteps } from './run-steps.js';
import type { TestApp } from './test-app.js';

/** A new key for SERVICE_SECRETS_KEY. */
export function newSecretsKey(): string {
  return randomBytes(32).toString('base64');
}

/** What a run says about secrets. */
export interface UsedSecrets {
  /** Names by environment variable. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly image_pull_secret?: string;
}

/** A run that a worker holds at its first attempt. @returns its id */
export async function heldRun(service: TestApp, used: UsedSecrets, worker = 'w'): Promise<string> {
  const { id } = await new RunSteps(service.send).assigned({}, worker);
  await execute(service.dataSource, 'update runs set container = $1 where id = $2', [used, id]);
  return id;
}

/** Headers of a worker that holds a run. */
export function fence(worker = 'w', attempt = 1): Readonly<Record<string, string>> {
  return { 'X-Worker-Id': worker, 'X-Run-Attempt': String(attempt) };
}
