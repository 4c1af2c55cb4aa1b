import { useState, type KeyboardEvent } from 'react';
import type { Schemas } from '../../api/use-api.js';
import { Headings } from '../../components/values/facts.js';
import { formatCount } from '../../lib/format.js';
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

/** The figures of the chart for those who cannot see it; the newest minute first, minutes in which nothing happened left out. */
function MinutesTable({ minutes }: { readonly minutes: readonly Minute[] }) {
  const rows = minutes.filter((minute) => SERIES.some((series) => minute[series] > 0)).toReversed();
  return (
    <div className="visually-hidden">
      <table>
        <caption>Runs by minute over the last hour, without minutes in which nothing happened</caption>
        <Headings names={['Minute', ...SERIES, 'failure rate']} />
        <tbody>
          {rows.map((minute) => (
            <tr key={minute.t}>
              <th scope="row">{new Date(minute.t).toLocaleTimeString('en-GB')}</th>
              {SERIES.map((series) => (
                <td key={series}>{minute[series]}</td>
              ))}
              <td>{formatRate(failureRate(minute))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What happened in one minute. */
type Minute = Schemas['OverviewMinute'];

/** What the chart shows of a minute, in the order of the legend. */
const SERIES = ['completed', 'failed', 'cancelled', 'created'] as const;
type Series = (typeof SERIES)[number];

/** Minutes taken together. */
type Totals = Readonly<Record<Series, number>>;

/** Adds minutes up. */
function sumUp(minutes: readonly Minute[]): Totals {
  const totals = { completed: 0, failed: 0, cancelled: 0, created: 0 };
  for (const minute of minutes) for (const series of SERIES) totals[series] += minute[series];
  return totals;
}

/** Share of failures among runs that completed or failed, from 0 to 1; undefined when none did. */
function failureRate({ completed, failed }: Pick<Totals, 'completed' | 'failed'>): number | undefined {
  return completed + failed === 0 ? undefined : failed / (completed + failed);
}

/** `12 %`, `0.4 %`; a dash when there is nothing to have a rate of. */
function formatRate(rate: number | undefined): string {
  if (rate === undefined) return '–';
  const percent = rate * 100;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** The least of 4, 10, 20, 40, 100 ... that holds the largest minute: steps, so that the scale seldom moves. */
function scaleOf(minutes: readonly Minute[]): number {
  const most = Math.max(
    0,
    ...minutes.map(({ created, completed, failed, cancelled }) =>
      Math.max(created, completed + failed + cancelled),
    ),
  );
  for (let decade = 1; ; decade *= 10) {
    const step = [2, 4, 10].find((factor) => factor * decade >= 4 && factor * decade >= most);
    if (step !== undefined) return step * decade;
  }
}
