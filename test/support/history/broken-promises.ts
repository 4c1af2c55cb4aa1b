import { CHAOS_SETTINGS } from './chaos-deployment.js';
import { checkHistory } from './check-history.js';
import type { Call, FinalState, Violation } from './history.js';

const RULES = {
  workerTimeoutMs: CHAOS_SETTINGS.workerTimeout * 1000,
  maxReclaims: CHAOS_SETTINGS.maxReclaims,
};
const SHOWN = 40;
/** Violations that are told at length. */
const STORIES = 3;

/**
 * What a history and the final state have against each other, a line each, and everything about the runs of the first ones.
 * @param ignored names of violations
 */
export function brokenPromises(
  history: readonly Call[],
  final: FinalState,
  ...ignored: readonly Violation['name'][]
): string[] {
  const violations = checkHistory(history, final, RULES).filter(({ name }) => !ignored.includes(name));
  const lines = violations.slice(0, SHOWN).map(({ name, detail }) => `${name}: ${detail}`);
  const told = violations
    .slice(0, STORIES)
    .flatMap((violation) => tellStory(violation, history, final) ?? []);
  return [...lines, ...told];
}

const RUN_ID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

/**
 * What was sent and recorded of the run that a violation is about, a line each in order of time, for whoever has to
 * find the cause; undefined when it is about no run.
 */
function tellStory(
  { name, detail }: Violation,
  history: readonly Call[],
  { runs }: FinalState,
): string | undefined {
  const id = RUN_ID.exec(detail)?.[0];
  const run = runs.find((each) => each.id === id);
  if (id === undefined) return undefined;
  // A loss is judged by everything that the worker sent, whether it speaks of the run or not.
  const worker = name === 'healthy-worker-lost-run' ? detail.split(' ')[0] : undefined;
  const speaks = history.filter((call) => JSON.stringify(call).includes(id));
  const start = Math.min(...speaks.map(({ startedAt }) => startedAt));
  const end = Math.max(...speaks.map(({ endedAt }) => endedAt));
  const about = history.filter(
    (call) =>
      (speaks.includes(call) && call.kind !== 'heartbeat' && call.kind !== 'read') ||
      (call.kind === 'heartbeat' && call.worker === worker && call.startedAt > start && call.endedAt < end),
  );
  const lines = [
    ...about.map((call) => {
      const { kind, actor, startedAt, endedAt } = call;
      const said =
        kind === 'event'
          ? `${call.type} ${call.mark} of attempt ${call.reporter?.attempt}`
          : kind === 'heartbeat' && call.running.includes(id)
            ? 'naming it'
            : '';
      const times = `${Math.round(startedAt - start)}-${Math.round(endedAt - start)} ms`;
      return { at: startedAt, text: `${times} ${actor}: ${kind} ${said} -> ${JSON.stringify(call.outcome)}` };
    }),
    ...(run?.timeline ?? []).map(({ id: index, t, type, attempt, mark, worker: named }) => ({
      at: t,
      text: `${t - Math.round(start)} ms recorded ${index}: ${type} of attempt ${attempt} ${mark ?? named ?? ''}`,
    })),
  ].toSorted((a, b) => a.at - b.at);
  const outcome = run === undefined ? 'is not there' : `is ${run.state}: ${JSON.stringify(run.attempts)}`;
  return [`${name}: ${detail}`, ...lines.map(({ text }) => `  ${text}`), `  in the end it ${outcome}`].join(
    '\n',
  );
}
