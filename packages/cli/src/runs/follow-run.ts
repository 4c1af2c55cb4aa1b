import { setTimeout as sleep } from 'node:timers/promises';
import type { Schemas } from '@longshore/client';
import { TERMINAL_STATES } from '@longshore/client/constants';
import { oneLine } from '@longshore/common/shown-text';
import { CliError, EXIT, type ExitCode } from '../cli-error.js';
import { readStream, type StreamOptions } from '../service/event-source.js';
import { LogPrinter, noteLeftOut, type LogStyle } from './log-text.js';
import { RunPoller, type RunUpdate } from './run-poller.js';
import { eventText } from './run-view.js';
import type { Session } from '../service/session.js';
import { STATE_COLOURS } from '../terminal/style.js';
import { span } from '../terminal/table.js';

/** Options for following a run. */
export interface FollowOptions extends LogStyle {
  /** Leaves out the log of the container. */
  readonly withoutLogs: boolean;
  /** Milliseconds without a response before following fails. */
  readonly patienceMs: number;
}

/** Time after which a run that is still pending is explained. */
const EXPLAIN_AFTER_MS = 5_000;

/** Time to wait for the end of a log after its attempt: a stale worker never sends it. */
const LOG_GRACE_MS = 10_000;

/**
 * Follows a run to its end: its log to standard output, its events to standard error. With `json` both go to standard
 * output, one JSON text a line (PolledEvent, LogLine, LogGap), and the run (OpRun) is the last.
 * @returns the exit code that the run ended with
 * @throws CliError
 */
export async function followRun(session: Session, id: string, options: FollowOptions): Promise<ExitCode> {
  const { output } = session;
  const onUpdate = async ({ run, events }: RunUpdate): Promise<void> => {
    if (options.json) {
      await output.json(...events);
    } else {
      // The progress line shows progress already.
      const shown = events.filter(({ type }) => type !== 'PROGRESS' || !output.live.isLive);
      for (const event of shown) output.note(eventText(event));
    }
    const colour = STATE_COLOURS[run.state];
    output.live.set({ title: run.state, colour, progress: run.progress, detail: detailOf(run) });
  };
  const poller = new RunPoller(session, id, { patienceMs: options.patienceMs, onUpdate });
  let explaining: NodeJS.Timeout | undefined;
  try {
    let { run } = await poller.start();
    if (!options.json) explaining = setTimeout(() => void noteWait(session, id), EXPLAIN_AFTER_MS);
    for (let attempt = run.current_attempt; ; attempt += 1) {
      if (!options.withoutLogs) await followLog(session, poller, attempt, options);
      ({ run } = await poller.until(
        (now) => TERMINAL_STATES.has(now.state) || now.current_attempt > attempt,
      ));
      if (TERMINAL_STATES.has(run.state) && run.current_attempt === attempt) break;
      if (!options.json) output.note(`attempt ${attempt + 1} of run ${id}`);
    }
    const ended = await readRun(session, id, options.patienceMs);
    output.live.clear();
    if (options.json) await output.json(ended);
    else output.note(endText(ended));
    return ended.state === 'COMPLETED' ? EXIT.ok : EXIT.failed;
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.interrupted) throw error;
    throw new CliError(
      EXIT.interrupted,
      `left run ${id}, which goes on: "longshore run watch ${id}" follows it again`,
    );
  } finally {
    clearTimeout(explaining);
    output.live.clear();
    poller.close();
  }
}

/** Says why a pending run waits. Without an answer it says nothing: the poller reports what is wrong. */
async function noteWait({ client, output, stop }: Session, id: string): Promise<void> {
  try {
    const signal = AbortSignal.any([stop, AbortSignal.timeout(EXPLAIN_AFTER_MS)]);
    const { data } = await client.GET('/runs/{id}/explain', { params: { path: { id } }, signal });
    if (data?.state === 'PENDING') output.note(`waiting: ${oneLine(data.summary)}`);
  } catch {
    // Ctrl-C, or the service is unreachable.
  }
}

/** The run without its events. */
function readRun(session: Session, id: string, patienceMs?: number): Promise<Schemas['OpRun']> {
  const params = { path: { id }, query: { include_events: false } };
  return session.ask((init) => session.client.GET('/runs/{id}', { params, ...init }), patienceMs);
}

async function followLog(
  session: Session,
  poller: RunPoller,
  attempt: number,
  options: FollowOptions,
): Promise<void> {
  const { output } = session;
  const printer = new LogPrinter(options, output);
  const timeout = new AbortController();
  const done = new AbortController();
  let isIncomplete = false;
  const stopWaiting = async (): Promise<void> => {
    try {
      const isOver = (now: Schemas['OpRun']): boolean =>
        TERMINAL_STATES.has(now.state) || now.current_attempt > attempt;
      const { run } = await poller.until(isOver, done.signal);
      const wasHeld = run.current_attempt > attempt || run.execution_summary.worker_id !== undefined;
      // Without a worker there is no log.
      if (wasHeld) await sleep(LOG_GRACE_MS, undefined, { signal: done.signal });
      isIncomplete = wasHeld;
    } catch {
      // The log has ended, or the run cannot be read; the next poll reports why.
    }
    timeout.abort();
  };
  const waiting = stopWaiting();
  try {
    await printStream(session, printer, {
      id: poller.id,
      place: { attempt },
      patienceMs: options.patienceMs,
      signal: timeout.signal,
    });
    if (isIncomplete) output.note(`the log of attempt ${attempt} has not ended: its worker may be stale`);
  } finally {
    await printer.end();
    done.abort();
    await waiting;
  }
}

/** A log to follow, and for how long. */
interface LogSource extends Pick<StreamOptions, 'patienceMs' | 'signal'> {
  /** Id of the run. */
  readonly id: string;
  readonly place: { readonly attempt?: number; readonly after?: string };
}

/** Prints a log until it ends, and says then how much of it is not stored. @throws CliError */
export async function printStream(
  session: Session,
  printer: LogPrinter,
  { id, place, ...limits }: LogSource,
): Promise<void> {
  const batches = readStream(session, {
    open: (after, init) =>
      session.client.GET('/runs/{id}/logs/stream', {
        params: { path: { id }, query: after === undefined ? place : { ...place, after } },
        parseAs: 'stream',
        ...init,
      }),
    onEnd: (data) => {
      const { lines, left_out: leftOut }: Readonly<Record<string, number>> = JSON.parse(data);
      noteLeftOut(session.output, { printed: Number(lines), leftOut: Number(leftOut) });
    },
    ...limits,
  });
  for await (const batch of batches) await printer.print(batch.map(({ data }) => data));
}

function detailOf({
  current_attempt: attempt,
  retry_policy: { max_attempts: most },
  execution_summary,
}: Schemas['OpRun']): string {
  const worker = execution_summary.worker_id;
  const attempts = most > 1 || attempt > 1 ? `attempt ${attempt} of ${Math.max(most, attempt)}` : '';
  return [attempts, worker === undefined ? '' : `on ${worker}`].filter((part) => part !== '').join(' ');
}

function endText({
  id,
  state,
  execution_summary: { duration_ms: ms, error_message: why },
}: Schemas['OpRun']): string {
  const time = ms === undefined ? '' : ` after ${ms < 10_000 ? `${(ms / 1000).toFixed(1)}s` : span(ms)}`;
  return `run ${id} is ${state}${time}${why === undefined || state === 'COMPLETED' ? '' : `: ${oneLine(why)}`}`;
}
