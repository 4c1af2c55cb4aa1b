import fc from 'fast-check';
import type { RunCommand } from '../../../src/runs/machine/run-command.js';
import {
  MANUAL_RETRY,
  RETRY_WITH_DEPENDENTS,
  userCancel,
  type RunEvent,
} from '../../../src/runs/machine/run-event.js';
import { RUN_STATES, type RunState } from '../../../src/runs/machine/run-state.js';

/** A request of a client or an admin about a run. */
export interface Action {
  readonly method: 'POST' | 'PATCH';
  /** Behind that of the run. */
  readonly path: string;
  readonly body?: object;
  readonly command: RunCommand;
  /** Whether it is about a run whose end has cancelled others, if there is one. */
  readonly setsRight?: true;
}

const EVENTS: Readonly<Record<string, RunEvent>> = {
  '/cancel': userCancel(),
  '/retry': MANUAL_RETRY,
  '/retry?dependents=true': RETRY_WITH_DEPENDENTS,
};
/** What clients and admins ask for. */
export const anyAction = fc.oneof(
  fc.constantFrom(...Object.entries(EVENTS)).map(([path, event]): Action => ({
    method: 'POST',
    path,
    command: { type: 'event', event, reporter: {} },
  })),
  fc.constantFrom(...RUN_STATES.map(patchTo)),
  fc.constantFrom<Action>({ ...patchTo('COMPLETED'), setsRight: true }),
);

function patchTo(state: RunState): Action {
  return {
    method: 'PATCH',
    path: '',
    body: { state },
    command: { type: 'patch', keyName: 'admin', state },
  };
}
