import { collect, type Collected, type CollectParts } from '../artifacts/collect.js';
import type { Fetched } from '../artifacts/fetch-sources.js';
import { targetFolders } from '../artifacts/pattern.js';
import { RunFault, type ArtifactPlaces, type RunningContainer } from '../runtime/runtime.js';
import type { RunArtifacts } from '../service-api/run-artifacts.js';
import { outcomeOfError, type Outcome } from './outcome.js';
import { Stopped, type StopSignal } from './stop-signal.js';

/** What was stored of an attempt. */
export interface Left {
  readonly left: Collected['stored'];
  /** Why not all; null: all was. */
  readonly problem: unknown;
}

/** Opens what an ended container has left. Null: this process does not store it. */
export type ReadFiles = RunningContainer['readFiles'] | null;

export const NOTHING_LEFT: Left = { left: [], problem: null };

/** Waits for files. Those that come after the stop of the execution are given up. @throws Stopped */
export async function untilFetched(fetching: Promise<Fetched>, stopSignal: StopSignal): Promise<Fetched> {
  try {
    return await stopSignal.abortable(fetching);
  } catch (error) {
    void fetching.then(
      (late) => late.release(),
      () => undefined,
    );
    throw error;
  }
}

/** What a container gets for its run. */
export function placesOf(
  artifacts: RunArtifacts | undefined,
  { sources: fetched }: Fetched,
): ArtifactPlaces | null {
  return artifacts === undefined ? null : { fetched, folders: targetFolders(artifacts) };
}

/** Sends what an ended container leaves to the store. @throws Stopped */
export async function collectFiles(
  readFiles: ReadFiles,
  {
    artifacts,
    hasSucceeded,
  }: { readonly artifacts: RunArtifacts | undefined; readonly hasSucceeded: boolean },
  storing: CollectParts,
  stopSignal: StopSignal,
): Promise<Left> {
  const { out = {} } = artifacts ?? {};
  if (readFiles === null || !Object.values(out).some(({ isAlways }) => hasSucceeded || isAlways))
    return NOTHING_LEFT;
  const collecting = readFiles((files) => collect(out, hasSucceeded, files, storing, stopSignal.signal));
  return untilCollected(collecting, stopSignal);
}

/** Waits for what is being stored. @throws Stopped */
export async function untilCollected(collecting: Promise<Collected>, stopSignal: StopSignal): Promise<Left> {
  try {
    const { stored, missing } = await stopSignal.abortable(collecting);
    const isWhole = missing.length === 0;
    return {
      left: stored,
      problem: isWhole ? null : new RunFault(`The run has not left ${missing.join(', ')}`),
    };
  } catch (error) {
    if (error instanceof Stopped) throw error;
    return { left: [], problem: error };
  }
}

/** The outcome of a program that has succeeded. @param complete its outputs, unless there is a problem. @throws Stopped */
export async function outcomeWith(
  left: Left['left'],
  problem: unknown,
  complete: () => Promise<Outcome>,
): Promise<Outcome> {
  try {
    if (problem !== null) throw problem;
    return await complete();
  } catch (error) {
    if (error instanceof Stopped) throw error;
    return withArtifacts(outcomeOfError(error), left);
  }
}

/** A failure after which files were stored. */
export function withArtifacts(outcome: Outcome, artifacts: Collected['stored']): Outcome {
  return outcome.kind === 'failed' && artifacts.length > 0 ? { ...outcome, artifacts } : outcome;
}
