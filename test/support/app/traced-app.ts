import assert from 'node:assert/strict';
import { startTracing } from '@longshore/common/tracing/start-tracing';
import { OtlpReceiver } from '../monitoring/otlp-receiver.js';
import type { ReceivedSpan } from '../monitoring/otlp-decode.js';
import { startTestApp, type TestApp, type TestAppOptions } from './test-app.js';

/** An application whose spans go to a collector of its own. */
export interface TracedApp extends TestApp {
  readonly collector: OtlpReceiver;
}

/** Starts one. @param env OTEL_* variables, which the SDK reads from this process */
export async function startTracedApp(
  env: Readonly<Record<string, string>> = {},
  options: TestAppOptions = {},
): Promise<TracedApp> {
  const collector = await OtlpReceiver.start();
  for (const name of Object.keys(process.env)) if (name.startsWith('OTEL_')) delete process.env[name];
  Object.assign(process.env, collector.env, env);
  const tracing = await startTracing(process.env, { name: 'longshore', version: '0', warn: assert.fail });
  const app = await startTestApp({ ...options, tracing });
  const close = async (): Promise<void> => {
    await app.close();
    await collector.stop();
  };
  return { ...app, collector, close };
}

/** A place in a trace that nobody else is in. */
export interface FreshTrace {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceparent: string;
}

let count = 0;

/** The place that a client is in that begins a trace. */
export function freshTrace(flags = '01'): FreshTrace {
  count += 1;
  const traceId = `${process.pid.toString(16)}${count.toString(16).padStart(8, '0')}`.padStart(32, 'a');
  const spanId = count.toString(16).padStart(16, 'b');
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-${flags}` };
}

/** The traceparent under which work belongs that a span brings about. */
export function placeOf({ traceId, spanId }: ReceivedSpan): string {
  return `00-${traceId}-${spanId}-01`;
}

/** The link to a span. */
export function linkTo({ traceId, spanId }: ReceivedSpan): Pick<ReceivedSpan, 'traceId' | 'spanId'> {
  return { traceId, spanId };
}
