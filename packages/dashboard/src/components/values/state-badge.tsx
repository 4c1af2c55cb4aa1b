import type { RunState } from '@longshore/client/constants';
import { Badge, type Tone } from './badge.js';

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
