import type { Schemas } from '../../api/use-api.js';

/** What happened in one minute. */
export type Minute = Schemas['OverviewMinute'];

/** What the chart shows of a minute, in the order of the legend. */
export const SERIES = ['completed', 'failed', 'cancelled', 'created'] as const;
export type Series = (typeof SERIES)[number];

/** Minutes taken together. */
export type Totals = Readonly<Record<Series, number>>;

/** Adds minutes up. */
export function sumUp(minutes: readonly Minute[]): Totals {
  const totals = { completed: 0, failed: 0, cancelled: 0, created: 0 };
  for (const minute of minutes) for (const series of SERIES) totals[series] += minute[series];
  return totals;
}

/** Share of failures among runs that completed or failed, from 0 to 1; undefined when none did. */
export function failureRate({ completed, failed }: Pick<Totals, 'completed' | 'failed'>): number | undefined {
  return completed + failed === 0 ? undefined : failed / (completed + failed);
}

/** `12 %`, `0.4 %`; a dash when there is nothing to have a rate of. */
export function formatRate(rate: number | undefined): string {
  if (rate === undefined) return '–';
  const percent = rate * 100;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** The least of 4, 10, 20, 40, 100 ... that holds the largest minute: steps, so that the scale seldom moves. */
export function scaleOf(minutes: readonly Minute[]): number {
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
