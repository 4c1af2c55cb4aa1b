import { classNames } from '../../lib/class-names.js';
import styles from './live-dot.module.css';

/** How live something is. */
export type Liveness = 'live' | 'waiting' | 'paused' | 'ended';

const WORDS: Readonly<Record<Liveness, string>> = {
  live: 'Live',
  waiting: 'Connecting',
  paused: 'Paused',
  ended: 'Ended',
};

/** Says whether what is shown is kept up to date. */
export function LiveDot({ state }: { readonly state: Liveness }) {
  return <span className={classNames(styles.dot, styles[state])}>{WORDS[state]}</span>;
}
