import type { RunState } from '@longshore/client/constants';
import type { ReactNode } from 'react';
import type { Schemas } from '../../api/use-api.js';
import { classNames } from '../../lib/class-names.js';
import styles from './badge.module.css';

/** The tones that a badge may have. */
export type Tone = 'neutral' | 'info' | 'violet' | 'good' | 'warn' | 'bad';

interface Props {
  readonly tone: Tone;
  readonly children: ReactNode;
}

/** A word on a coloured ground, with a dot so that the colour is not all that tells it apart. */
export function Badge({ tone, children }: Props) {
  return <span className={classNames(styles.badge, styles[tone])}>{children}</span>;
}

/** The tones of the states of runs. */
export const STATE_TONES: Readonly<Record<RunState, Tone>> = {
  PENDING: 'warn',
  ASSIGNED: 'violet',
  RUNNING: 'info',
  COMPLETED: 'good',
  FAILED: 'bad',
  CANCELLED: 'neutral',
};

/** The tones of the states of groups. */
export const GROUP_TONES: Readonly<Record<Schemas['GroupState'], Tone>> = {
  open: 'info',
  completed: 'good',
  failed: 'bad',
  cancelled: 'neutral',
};

/** The state of a run or an attempt. */
export function StateBadge({ state }: { readonly state: RunState }) {
  return <Badge tone={STATE_TONES[state]}>{state.toLowerCase()}</Badge>;
}
