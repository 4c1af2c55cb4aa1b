import type { EventEmitter } from 'node:events';
import type { MetricObjectWithValues, MetricValue } from 'prom-client';

/** Marks a process that the primary forked: the service may itself run in the cluster of a process manager. */
export const SERVER_PROCESS = 'SERVICE_SERVER_PROCESS';

/** All metrics of one process, as `Registry.getMetricsAsJSON()` returns them. */
export type Counts = readonly MetricObjectWithValues<MetricValue<string>>[];

/** What a server process tells the primary. */
export interface ProcessMessages {
  /** It is ready to listen, and waits for `port`. */
  prepared: [];
  /** It listens at a URL. */
  ready: [url: string];
  /** It cannot start, for these lines of standard error; its exit code follows. */
  failed: [problems: readonly string[]];
  /** The answer to `count`, and its last word. */
  counts: [counts: Counts];
  /** It waits for `metrics`. */
  scrape: [];
}

/** What the primary tells a server process. */
export interface PrimaryMessages {
  port: [port: number];
  count: [];
  /** Those of all processes, as text. */
  metrics: [text: string];
}

/** A message on the IPC channel of node:cluster. */
export interface Message {
  readonly longshore: string;
  readonly values: readonly unknown[];
}

/** Emits the messages of the other process, which runs the same program; ignores those of libraries. */
export function receive(receiver: EventEmitter, message: unknown): void {
  if (isMessage(message)) receiver.emit(message.longshore, ...message.values);
}

function isMessage(message: unknown): message is Message {
  return typeof message === 'object' && message !== null && 'longshore' in message;
}
