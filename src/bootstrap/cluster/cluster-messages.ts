import type { MetricObjectWithValues, MetricValue } from 'prom-client';

/** Marks a process that the primary forked, so that a process manager's own cluster is not mistaken for ours. */
export const SERVER_PROCESS = 'SERVICE_SERVER_PROCESS';

/** Everything that one process has counted, as `Registry.getMetricsAsJSON()` gives it. */
export type Counts = readonly MetricObjectWithValues<MetricValue<string>>[];

/** What a server process tells the primary. */
export type ChildMessage =
  /** It hears what it is told. */
  | { readonly kind: 'loaded' }
  /** It could listen now. */
  | { readonly kind: 'prepared' }
  | { readonly kind: 'ready'; readonly url: string }
  /** It ends because it cannot start: lines for people, and the exit code that fits them. */
  | { readonly kind: 'failed'; readonly problems: readonly string[]; readonly exitCode: number }
  /** Somebody wants the counts of all. */
  | { readonly kind: 'scrape'; readonly id: number }
  /** Answers `count`, or says good-bye (id 0). */
  | { readonly kind: 'counted'; readonly id: number; readonly counts: Counts };

/** What the primary tells a server process. */
export type PrimaryMessage =
  | { readonly kind: 'setup'; readonly databaseUrl: string }
  | { readonly kind: 'listen'; readonly port: number }
  | { readonly kind: 'count'; readonly id: number }
  /** Answers `scrape`; without a text it failed. */
  | { readonly kind: 'scraped'; readonly id: number; readonly text: string | undefined };

const CHILD_KINDS: ReadonlySet<unknown> = new Set<ChildMessage['kind']>([
  'loaded',
  'prepared',
  'ready',
  'failed',
  'scrape',
  'counted',
]);

const PRIMARY_KINDS: ReadonlySet<unknown> = new Set<PrimaryMessage['kind']>([
  'setup',
  'listen',
  'count',
  'scraped',
]);

/** Both ends run the same program, so the kind vouches for the rest; libraries may send messages of their own. */
export function isChildMessage(message: unknown): message is ChildMessage {
  return CHILD_KINDS.has(kindOf(message));
}

/** The same for the other direction. */
export function isPrimaryMessage(message: unknown): message is PrimaryMessage {
  return PRIMARY_KINDS.has(kindOf(message));
}

function kindOf(message: unknown): unknown {
  return typeof message === 'object' && message !== null && 'kind' in message ? message.kind : undefined;
}
