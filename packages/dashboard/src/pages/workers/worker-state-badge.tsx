import { Badge, type Tone } from '../../components/values/badge.js';
import type { WorkerState } from './worker-view.js';

const TONES: Readonly<Record<WorkerState, Tone>> = {
  active: 'good',
  draining: 'warn',
  'not claiming': 'warn',
  stale: 'bad',
};

/** What a worker is up to. */
export function WorkerStateBadge({ state }: { readonly state: WorkerState }) {
  return <Badge tone={TONES[state]}>{state}</Badge>;
}
