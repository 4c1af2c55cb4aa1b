import { classNames } from '../../lib/class-names.js';
import styles from './resource-bar.module.css';

interface Props {
  /** What it is, such as `CPU cores`. */
  readonly label: string;
  readonly used: number;
  readonly total: number;
  /** Puts a figure into words; plain numbers unless given. */
  readonly format?: (value: number) => string;
  /** Shows the label before the figures; else it is there for screen readers only. */
  readonly hasLabel?: boolean;
  /** Draws the bar alone, for many beside each other; the figures are in its tip. */
  readonly isBare?: boolean;
}

/** How much of something is used: figures above a bar. It turns amber when nearly all is used. */
export function ResourceBar(props: Props) {
  const { label, used, total, format = String, hasLabel = false, isBare = false } = props;
  const share = total <= 0 ? 0 : Math.min(1, Math.max(0, used / total));
  const words = `${format(used)} of ${format(total)} used`;
  return (
    <div
      className={styles.resource}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.max(total, 1)}
      aria-valuenow={Math.min(Math.max(used, 0), Math.max(total, 1))}
      aria-valuetext={words}
      title={`${label}: ${words}, ${format(Math.max(0, total - used))} free`}
    >
      {!isBare && (
        <span className={styles.figures} aria-hidden="true">
          {hasLabel && <span className={styles.label}>{label}</span>}
          <span>
            {format(used)} <span className="muted">/ {format(total)}</span>
          </span>
        </span>
      )}
      <span className={styles.track} aria-hidden="true">
        <span
          className={classNames(styles.fill, share >= 0.9 && styles.full)}
          style={{ transform: `scaleX(${share})` }}
        />
      </span>
    </div>
  );
}
