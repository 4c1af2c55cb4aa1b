import { useState, type KeyboardEvent } from 'react';
import { formatCount } from '../../lib/format.js';
import { failureRate, formatRate, scaleOf, SERIES, sumUp, type Minute, type Totals } from './minutes.js';
import { MinutesTable } from './minutes-table.js';
import styles from './throughput-chart.module.css';

/** The chart's own units: the picture is stretched to the room that there is. */
const HEIGHT = 100;
const WIDTH = 10;
const GAP = 1.5;

interface Props {
  /** Oldest first; the last one is under way. */
  readonly minutes: readonly Minute[];
}

/**
 * What happened in the last hour, by the minute. The line above the chart tells the figures of the hour, or of the
 * minute under the pointer; with the focus in the chart the arrow keys go from minute to minute.
 */
export function ThroughputChart({ minutes }: Props) {
  const [at, setAt] = useState<number>();
  const shown = at === undefined ? undefined : minutes[at];
  const scale = scaleOf(minutes);
  const words = describe(shown ?? sumUp(minutes), shown);
  const onKeyDown = (event: KeyboardEvent): void => {
    const last = minutes.length - 1;
    const now = at ?? last + 1;
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (event.key === 'Escape') setAt(undefined);
    if (next === undefined) return;
    event.preventDefault();
    setAt(Math.min(last, Math.max(0, next)));
  };
  return (
    <div className={styles.chart}>
      <Readout totals={shown ?? sumUp(minutes)} minute={shown} />
      <div className={styles.frame}>
        <div className={styles.scale} aria-hidden="true">
          <span>{formatCount(scale)}</span>
          <span>{formatCount(scale / 2)}</span>
          <span>0</span>
        </div>
        <div
          className={styles.plot}
          role="slider"
          tabIndex={0}
          aria-label="Runs by minute over the last hour"
          aria-valuemin={0}
          aria-valuemax={minutes.length - 1}
          aria-valuenow={at ?? minutes.length - 1}
          aria-valuetext={words}
          onKeyDown={onKeyDown}
          onBlur={() => setAt(undefined)}
          onPointerLeave={() => setAt(undefined)}
          onPointerMove={({ currentTarget, clientX }) => {
            const { left, width } = currentTarget.getBoundingClientRect();
            const place = Math.floor(((clientX - left) / width) * minutes.length);
            setAt(Math.min(minutes.length - 1, Math.max(0, place)));
          }}
        >
          <Bars minutes={minutes} scale={scale} />
          <Rates minutes={minutes} />
          {at !== undefined && (
            <span
              className={styles.cursor}
              style={{ left: `${(at / minutes.length) * 100}%`, width: `${100 / minutes.length}%` }}
            />
          )}
        </div>
        <span className={styles.rateLabel} aria-hidden="true">
          failed %
        </span>
        <div className={styles.times} aria-hidden="true">
          {[0, 15, 30, 45].map((place) => (
            <span key={place}>{clockOf(minutes[place])}</span>
          ))}
          <span>now</span>
        </div>
      </div>
      <MinutesTable minutes={minutes} />
    </div>
  );
}

/** Ends as bars upon each other, and creations as a line over them. */
function Bars({ minutes, scale }: Props & { readonly scale: number }) {
  const line = minutes.map(({ created }, place) => {
    const y = HEIGHT - (created / scale) * HEIGHT;
    return `${place === 0 ? 'M' : 'L'}${place * WIDTH} ${y}h${WIDTH}`;
  });
  return (
    <svg
      className={styles.bars}
      viewBox={`0 0 ${minutes.length * WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path className={styles.grid} d={`M0 ${HEIGHT / 2}H${minutes.length * WIDTH}`} />
      {minutes.map((minute, place) => (
        <Bar key={minute.t} minute={minute} x={place * WIDTH} scale={scale} />
      ))}
      <path className={styles.created} d={line.join('')} />
    </svg>
  );
}

function Bar({ minute, x, scale }: { readonly minute: Minute; readonly x: number; readonly scale: number }) {
  let top = HEIGHT;
  return (['completed', 'failed', 'cancelled'] as const).map((series) => {
    const height = (minute[series] / scale) * HEIGHT;
    top -= height;
    if (height === 0) return null;
    return (
      <rect
        key={series}
        className={styles[series]}
        x={x + GAP}
        y={top}
        width={WIDTH - 2 * GAP}
        height={height}
      />
    );
  });
}

/** The share of failures of each minute, from 0 to all. */
function Rates({ minutes }: Props) {
  return (
    <svg
      className={styles.rates}
      viewBox={`0 0 ${minutes.length * WIDTH} 1`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {minutes.map((minute, place) => {
        const rate = failureRate(minute) ?? 0;
        return (
          <rect
            key={minute.t}
            className={styles.failed}
            x={place * WIDTH + GAP}
            y={1 - rate}
            width={WIDTH - 2 * GAP}
            height={rate}
          />
        );
      })}
    </svg>
  );
}

function Readout({ totals, minute }: { readonly totals: Totals; readonly minute: Minute | undefined }) {
  return (
    <dl className={styles.readout}>
      <div className={styles.when}>
        <dt className="visually-hidden">Time</dt>
        <dd>{minute === undefined ? 'Last hour' : clockOf(minute)}</dd>
      </div>
      {SERIES.map((series) => (
        <div key={series} className={styles.figure} data-series={series}>
          <dt>{series}</dt>
          <dd>{formatCount(totals[series])}</dd>
        </div>
      ))}
      <div className={styles.figure}>
        <dt>failure rate</dt>
        <dd>{formatRate(failureRate(totals))}</dd>
      </div>
    </dl>
  );
}

function describe(totals: Totals, minute: Minute | undefined): string {
  const figures = SERIES.map((series) => `${formatCount(totals[series])} ${series}`).join(', ');
  return `${minute === undefined ? 'Last hour' : clockOf(minute)}: ${figures}, failure rate ${formatRate(failureRate(totals))}`;
}

/** `14:05`, local. */
function clockOf(minute: Minute | undefined): string {
  if (minute === undefined) return '';
  return new Date(minute.t).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}
