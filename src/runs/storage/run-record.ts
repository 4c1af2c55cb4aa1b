import type { RunEntity } from '../../database/entities/run.entity.js';
import type { NewRun, Run } from '../machine/run.js';
import { isRunState, type RunState } from '../machine/run-state.js';

const UNKNOWN_STATE = 'a stored state is not known to this version';

/** A run as it is stored, with what the machine knows and what it only carries. */
export type RunRecord = Omit<RunEntity, 'state'> & { readonly state: RunState };

/** Reads a stored run, which is the same object. @throws Error when the row holds a state that this version does not know */
export function toRunRecord(row: RunEntity): RunRecord {
  if (!isRunRecord(row)) throw new Error(UNKNOWN_STATE);
  return row;
}

function isRunRecord(row: RunEntity): row is RunEntity & RunRecord {
  return isRunState(row.state);
}

/** What a creation stores, without reading it back. */
export function recordOfNewRun(run: Run, fresh: NewRun): RunRecord {
  // The many fields of the run come last: what is added to a large copy costs the engine far more than the copy.
  return {
    outputs: null,
    image: fresh.image,
    inputs: fresh.inputs,
    outputsTemplate: fresh.outputsTemplate,
    attributes: fresh.eventDelivery?.attributes ? { ...fresh.eventDelivery.attributes } : null,
    definitionId: fresh.definition?.id ?? null,
    definitionVersion: fresh.definition?.version ?? null,
    traceparent: fresh.trace?.traceparent ?? null,
    tracestate: fresh.trace?.tracestate ?? null,
    ...run,
  };
}

/** @throws Error when the text is no state of this version */
export function knownState(text: string): RunState {
  if (isRunState(text)) return text;
  throw new Error(UNKNOWN_STATE);
}
