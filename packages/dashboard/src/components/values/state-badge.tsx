import type { Schemas } from '@longshore/client';
import { Badge, type Tone } from './badge.js';

/** The states of a run. */
export type RunState = Schemas['OpRun']['state'];

const TONES: Readonly<Record<RunState, Tone>> = {
  PENDING: 'warn',
  ASSIGNED: 'violet',
  RUNNING: 'info',
  COMPLETED: 'good',
  FAILED: 'bad',
  CANCELLED: 'neutral',
};

/** The state of a run or an attempt. */
export function StateBadge({ state }: { readonly state: RunState }) {
  return <Badge tone={TONES[state]}>{state.toLowerCase()}</Badge>;
}
