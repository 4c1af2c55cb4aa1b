import { jsonText } from '@longshore/common/json/json-text';
import type { Decision } from './run-command.js';
import { record, type EventContent } from './record.js';
import type { Run } from './run.js';

/** See the settings of these names. */
export interface NoteLimits {
  readonly maxAttemptEvents: number;
  readonly maxAttemptEventBytes: number;
}

const LARGEST_INTEGER = 2 ** 31 - 1;

/**
 * Records an event that changes no state, unless the attempt has reached its limits. The first event beyond them is
 * replaced by EVENTS_DROPPED; later ones change the run only.
 */
export function recordNote(
  run: Run,
  event: EventContent,
  change: Partial<Run>,
  limits: NoteLimits,
): Decision {
  const bytes = Buffer.byteLength(JSON.stringify(event.msg)) + Buffer.byteLength(jsonText(event.payload));
  const counted = {
    noteCount: Math.min(run.noteCount + 1, LARGEST_INTEGER),
    noteBytes: Math.min(run.noteBytes + bytes, LARGEST_INTEGER),
  };
  const changed = { ...change, ...counted };
  if (isWithin(limits, counted)) return record(run, event, changed);
  if (isWithin(limits, run)) return record(run, droppedBy(limits), changed);
  return { run: { ...run, ...changed }, entries: [] };
}

function isWithin(
  { maxAttemptEvents, maxAttemptEventBytes }: NoteLimits,
  { noteCount, noteBytes }: Pick<Run, 'noteCount' | 'noteBytes'>,
): boolean {
  return noteCount <= maxAttemptEvents && noteBytes <= maxAttemptEventBytes;
}

function droppedBy({ maxAttemptEvents, maxAttemptEventBytes }: NoteLimits): EventContent {
  return {
    type: 'EVENTS_DROPPED',
    msg: 'Further events of this attempt are not recorded',
    payload: { max_events: maxAttemptEvents, max_bytes: maxAttemptEventBytes },
  };
}
