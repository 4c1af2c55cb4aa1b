import { RunSteps } from '../runs/run-steps.js';
import type { Send } from './test-app.js';

/** What the heartbeat of a worker says that may get a run with secrets. */
export const CAPABLE = { capabilities: ['secrets', 'secrets_from', 'files', 'registry'] } as const;

/** What a run says about secrets. */
export interface UsedSecrets {
  /** Names by environment variable. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly secrets_from?: readonly { readonly secret: string; readonly prefix?: string }[];
  readonly files?: Readonly<Record<string, object>>;
  readonly image_pull_secret?: string;
}

/** A run that a worker holds at its first attempt. @returns its id */
export async function heldRun(send: Send, used: UsedSecrets, worker = 'w'): Promise<string> {
  const steps = new RunSteps(send);
  await steps.heartbeat(worker, CAPABLE);
  const { id } = await steps.create({ priority: 2 ** 31 - 1, ...used });
  await steps.claimUntil(id, worker);
  return id;
}

/** Headers of a worker that holds a run. */
export function fence(worker = 'w', attempt = 1): Readonly<Record<string, string>> {
  return { 'X-Worker-Id': worker, 'X-Run-Attempt': String(attempt) };
}
