import assert from 'node:assert/strict';
import { TOPICS } from './load-client.js';
import { readFeed } from './feed-tail.js';
import type {
  AuditEntry,
  FeedEvent,
  FinalAttempt,
  FinalEntry,
  FinalGrowth,
  FinalRun,
  FinalState,
  Tail,
} from './history.js';
import { toEntry, type RecordedService } from './recorded-service.js';
import type { WireAnswer } from './wire.js';

const PAGE = 100;
const AUDIT_PAGE = 500;
const AT_ONCE = 16;
/** One run of so many is read in a second way. */
const COMPARED = 5;

/** Reads everything there is over HTTP, from all servers in turn. @throws AssertionError when something cannot be read */
export async function readFinalState(service: RecordedService, tails: readonly Tail[]): Promise<FinalState> {
  const listed = await listRuns(service);
  const runs: FinalRun[] = [];
  const waiting = [...listed.entries()];
  const lane = async (): Promise<void> => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [i, run] = next;
      const { body: attempts } = await get(service, i, `/runs/${run.id}/attempts`);
      if (i % COMPARED === 0) await compareViews(service, i + 1, run);
      runs.push(toFinalRun(run, attempts));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  const feeds = new Map<string, FeedEvent[]>();
  for (const topic of TOPICS) feeds.set(topic, await readFeed(service, topic));
  const audit = await readAudit(service);
  return { runs, feeds, audit, tails: tails.map(({ reader, topic, events }) => ({ reader, topic, events })) };
}

async function compareViews(
  service: RecordedService,
  server: number,
  run: WireAnswer['body'],
): Promise<void> {
  const { body } = await get(service, server, `/runs/${run.id}/events`);
  const what = `two views of the timeline of run ${run.id} differ`;
  assert.deepEqual(body.events.map(toEntry), run.events.map(toEntry), what);
}

/** How many runs have not ended. */
export async function countLive(service: RecordedService): Promise<number> {
  // One answer for all states: between several, a run could move from one that is still to be read to one that was read.
  const answer = await service.ask(0, { method: 'GET', path: '/overview' });
  if (answer === undefined) return Infinity;
  const { PENDING, ASSIGNED, RUNNING } = answer.body.runs;
  return PENDING + ASSIGNED + RUNNING;
}

async function readAudit(service: RecordedService): Promise<AuditEntry[]> {
  const audit: AuditEntry[] = [];
  for (let after = ''; ;) {
    const { body } = await get(service, 0, `/audit?limit=${AUDIT_PAGE}${after}`);
    const patches = body.filter(({ action }: { action: string }) => action === 'run.patch');
    audit.push(...patches.map((entry: { run_id: string }) => ({ runId: entry.run_id })));
    if (body.length < AUDIT_PAGE) return audit;
    after = `&after=${body.at(-1).id}`;
  }
}

async function listRuns(service: RecordedService): Promise<WireAnswer['body'][]> {
  const runs: WireAnswer['body'][] = [];
  for (let page = 0; ; page += 1) {
    const after = runs.at(-1)?.id;
    const cursor = after === undefined ? '' : `&starting_after=${after}`;
    const { body } = await get(service, page, `/runs?limit=${PAGE}${cursor}`);
    runs.push(...body.data);
    if (body.has_more === false) return runs;
  }
}

async function get(service: RecordedService, server: number, path: string): Promise<WireAnswer> {
  for (let tries = 0; tries < 5; tries += 1) {
    const answer = await service.ask(server, { method: 'GET', path, timeoutMs: 20_000 });
    if (answer !== undefined) return answer;
  }
  return assert.fail(`GET ${path} has no answer`);
}

function toFinalRun(run: WireAnswer['body'], attempts: WireAnswer['body'][]): FinalRun {
  const mark: unknown = run.inputs.mark;
  return {
    id: run.id,
    mark: typeof mark === 'string' ? mark : null,
    state: run.state,
    attempt: run.current_attempt,
    topic: run.event_delivery?.topic ?? null,
    maxAttempts: run.retry_policy.max_attempts,
    retryOn: run.retry_policy.retry_on ?? null,
    selector: run.selector ?? [],
    concurrency: run.concurrency ?? null,
    growth: toGrowth(run.retry_policy.grow, attempts[0]),
    startAt: timeOf(run.start_at),
    reclaims: run.execution_summary.reclaims ?? 0,
    timeline: run.events.map(toFinalEntry),
    attempts: attempts.map(toFinalAttempt),
  };
}

/** @param first attempt */
function toGrowth(grow: WireAnswer['body'], first: WireAnswer['body']): FinalGrowth | null {
  return grow ? { on: ['oom'], ...grow.ram_mb, ramMb: first.constraints.ram_mb } : null;
}

function toFinalEntry(event: WireAnswer['body']): FinalEntry {
  const { worker_id: worker, force, cause, run_id: parent } = event.payload;
  return {
    ...toEntry(event),
    attempt: event.attempt,
    msg: event.msg,
    worker: typeof worker === 'string' ? worker : null,
    force: typeof force === 'boolean' ? force : null,
    cause: typeof cause === 'string' ? cause : null,
    parent: typeof parent === 'string' ? parent : null,
  };
}

function toFinalAttempt({
  attempt,
  state,
  execution_summary: summary,
  constraints,
}: WireAnswer['body']): FinalAttempt {
  return {
    attempt,
    state,
    worker: summary.worker_id ?? null,
    assignedAt: timeOf(summary.assigned_at),
    finishedAt: timeOf(summary.finished_at),
    ramMb: constraints.ram_mb,
    cause: summary.cause ?? null,
  };
}

/** @param text undefined or null: the run has no such time */
function timeOf(text: string | null | undefined): number | null {
  return text === undefined || text === null ? null : Date.parse(text);
}
