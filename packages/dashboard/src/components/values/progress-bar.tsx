import { classNames } from '../../lib/class-names.js';
import type { Tone } from './badge.js';
import styles from './progress-bar.module.css';

interface Props {
  /** What makes progress, for screen readers. */
  readonly label: string;
  /** From 0 to 100. */
  readonly percent: number;
  readonly tone?: Tone;
}

/** How far something is. Its width never changes with the figure. */
export function ProgressBar({ label, percent, tone = 'info' }: Props) {
  const value = Math.min(100, Math.max(0, percent));
  return (
    <div className={styles.progress}>
      <div
        className={styles.track}
        role="progressbar"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={value}
      >
        <div
          className={classNames(styles.fill, styles[tone])}
          style={{ transform: `scaleX(${value / 100})` }}
        />
      </div>
      <span className={styles.figure}>{value} %</span>
    </div>
  );
}
