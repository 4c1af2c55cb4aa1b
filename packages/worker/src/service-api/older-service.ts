import { NO_CONSTRAINTS, type Constraints } from './constraints.js';
import type { HeartbeatReport, Refusal, RunEvent } from './service-api.js';

/** What payloads of the worker's own events have in interface.md, which every service knows. */
const KNOWN: ReadonlySet<string> = new Set(['worker_id', 'gpu_id', 'outputs', 'error_message']);

const OWN_TYPES: ReadonlySet<string> = new Set(['STARTED', 'COMPLETED', 'FAILED']);

/** The report with the members of interface.md alone, which every service takes. */
export function plainReport(report: HeartbeatReport): HeartbeatReport {
  const runningOps = report.runningOps.map((run) => ({
    ...run,
    constraints: plainConstraints(run.constraints),
    attempt: null,
  }));
  const more = {
    load: null,
    capabilities: [],
    notClaiming: [],
    unable: [],
    endingOps: [],
    containerEngine: null,
    awaySeconds: null,
  };
  return { ...report, ...more, runningOps };
}

/** Whole cores, memory and one GPU. */
function plainConstraints({ ramMb, vramMb, cpuMillis, gpuIds }: Constraints): Constraints {
  const millis = Math.ceil(cpuMillis / 1000) * 1000;
  return { ...NO_CONSTRAINTS, ramMb, vramMb, cpuMillis: millis, cpuLimitMillis: millis, gpuIds };
}

/** The event without the details that the service refuses by their names; null: it names none of them. */
export function withoutRefused({ type, msg, payload = {} }: RunEvent, refusal: Refusal): RunEvent | null {
  if (refusal.status !== 400 || !OWN_TYPES.has(type)) return null;
  const named = new Set(refusal.detail.match(/(?<=\bpayload\.)\w+/g));
  const entries = Object.entries(payload);
  const known = entries.filter(([name]) => !named.has(name) || KNOWN.has(name));
  return known.length === entries.length ? null : { type, msg, payload: Object.fromEntries(known) };
}
