import { InvalidRequest } from '../../common/http/errors/domain-error.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import { newId } from '../storage/new-id.js';
import type { RunCommand, Reporter } from '../machine/run-command.js';
import { readEvent, type ReportedEvent, type RunEvent } from '../machine/run-event.js';

/** The event as the state machine reads it. @throws InvalidRequest when it breaks a rule of its type */
export function checkedEvent(reported: ReportedEvent): RunEvent {
  const event = readEvent(reported);
  if ('problems' in event) throw new InvalidRequest(VALIDATION_FAILED, event.problems);
  return event;
}

/** The command that puts an event on a run's timeline and carries out its effect. */
export function eventCommand(event: RunEvent, reporter: Reporter): RunCommand {
  return { type: 'event', event, reporter, nextAttempt: { id: newId(), jitter: Math.random() } };
}
