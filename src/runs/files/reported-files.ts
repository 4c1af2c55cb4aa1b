import { isJsonObject } from '@longshore/common/json/json-value';
import { LARGE_OUTPUTS } from '../options/artifact-names.js';
import type { Command, RunCommand } from '../machine/run-command.js';
import type { Run } from '../machine/run.js';

/** The member of a payload that says what the worker has sent to the store. */
export const REPORT = 'artifacts';

/** Whether the command reports the end of an attempt. */
export function isEndOfAttempt(command: RunCommand): command is Command<'event'> {
  if (command.type !== 'event') return false;
  const { kind } = command.event.effect;
  return kind === 'COMPLETED' || kind === 'FAILED';
}

/** Whether a worker reports that it has kept outputs which are too large: any run may have these. */
export function reportsLargeOutputs(command: RunCommand): boolean {
  if (!isEndOfAttempt(command)) return false;
  const { [REPORT]: reported } = command.event.payload;
  return (
    Array.isArray(reported) && reported.some((one) => isJsonObject(one) && one['name'] === LARGE_OUTPUTS)
  );
}

/** The end of an attempt is reported, and the store was not asked yet what it has left; nothing has changed. */
export class FilesUnchecked extends Error {
  constructor(readonly attempt: number) {
    super('the store was not asked what the attempt has left');
  }
}

/** Whether the store must be asked what the attempt has left, before its end is recorded. */
export function mayLeaveFiles(
  { hasFiles }: Pick<Run, 'hasFiles'>,
  command: RunCommand,
): command is Command<'event'> {
  return isEndOfAttempt(command) && (hasFiles === true || reportsLargeOutputs(command));
}
