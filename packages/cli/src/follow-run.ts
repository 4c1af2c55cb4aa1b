import { setTimeout as sleep } from 'node:timers/promises';
import type { Schemas } from '@longshore/client';
import { CliError, EXIT, type ExitCode } from './cli-error.js';
import { readStream } from './event-source.js';
import { printLog, type LogStyle } from './log-text.js';
import { RunTicker, type RunNotifications } from './run-ticker.js';
import type { Session } from './session.js';
import { oneLine } from './style.js';
import { span } from './table.js';
import { eventText, isTerminal } from './views/run-view.js';

/** How a run is followed. */
export interface FollowOptions extends LogStyle {
  /** Whether to leave out what the container prints. */
  readonly withoutLogs: boolean;
  /** Milliseconds without the service after which it is given up. */
  readonly patienceMs: number;
}

/** How long the end of a log is waited for when its run has gone on: a lost worker never sends it. */
const LOG_GRACE_MS = 10_000;

/**
 * Follows a run to its end: its log to standard output, its events to standard error. With `json` both go to standard
 * output, one JSON text a line (PolledEvent, LogLine, LogGap), and the run (OpRun) is the last.
 * @returns the exit code that the run ended with
 * @throws CliError
 */
export async function followRun(session: Session, id: string, options: FollowOptions): Promise<ExitCode> {
  const { output } = session;
  const tell = async (news: RunNotifications): Promise<void> => {
    if (options.json) await output.json(...news.events);
    // The bar shows progress already.
    const told = news.events.filter(({ type }) => type !== 'PROGRESS' || !output.live.isLive);
    if (!options.json) for (const event of told) output.note(eventText(event));
    output.live.set({ state: news.run.state, progress: news.run.progress, detail: detailOf(news.run) });
  };
  const ticker = new RunTicker(session, id, { patienceMs: options.patienceMs, tell });
  try {
    let { run } = await ticker.start();
    for (let attempt = run.current_attempt; ; attempt += 1) {
      if (!options.withoutLogs) await followLog(session, ticker, attempt, options);
      ({ run } = await ticker.until((now) => isTerminal(now.state) || now.current_attempt > attempt));
      if (isTerminal(run.state) && run.current_attempt === attempt) break;
      if (!options.json) output.note(`attempt ${attempt + 1} of run ${id}`);
    }
    const whole = await readRun(session, id, options.patienceMs);
    output.live.clear();
    if (options.json) await output.json(whole);
    else output.note(endText(whole));
    return whole.state === 'COMPLETED' ? EXIT.ok : EXIT.failed;
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.interrupted) throw error;
    throw new CliError(
      EXIT.interrupted,
      `left run ${id}, which goes on: "longshore run watch ${id}" follows it again`,
    );
  } finally {
    output.live.clear();
    ticker.close();
  }
}

/** The run without its events. */
export function readRun(session: Session, id: string, patienceMs?: number): Promise<Schemas['OpRun']> {
  const params = { path: { id }, query: { include_events: false } };
  return session.ask((init) => session.client.GET('/runs/{id}', { params, ...init }), patienceMs);
}

async function followLog(
  session: Session,
  ticker: RunTicker,
  attempt: number,
  options: FollowOptions,
): Promise<void> {
  const { output, client } = session;
  const late = new AbortController();
  const done = new AbortController();
  let isOverdue = false;
  const giveUpLate = async (): Promise<void> => {
    try {
      const isOver = (now: Schemas['OpRun']): boolean =>
        isTerminal(now.state) || now.current_attempt > attempt;
      const { run } = await ticker.until(isOver, done.signal);
      const wasHeld = run.current_attempt > attempt || run.execution_summary.worker_id !== undefined;
      // Without a worker nothing was printed.
      if (wasHeld) await sleep(LOG_GRACE_MS, undefined, { signal: done.signal });
      isOverdue = wasHeld;
    } catch {
      // The log has ended. Or the run cannot be read: the next question for it tells why.
    }
    late.abort();
  };
  const watch = giveUpLate();
  try {
    const batches = readStream(session, {
      open: (after, init) =>
        client.GET('/runs/{id}/logs/stream', {
          params: { path: { id: ticker.id }, query: after === undefined ? { attempt } : { attempt, after } },
          parseAs: 'stream',
          ...init,
        }),
      patienceMs: options.patienceMs,
      signal: late.signal,
    });
    for await (const batch of batches) {
      await printLog(
        batch.map(({ data }) => data),
        options,
        output,
      );
    }
    if (isOverdue) output.note(`the log of attempt ${attempt} has not ended: its worker may be lost`);
  } finally {
    done.abort();
    await watch;
  }
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
