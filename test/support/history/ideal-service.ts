import { isEnded } from './fold.js';
import type {
  AuditEntry,
  Call,
  Dependency,
  FeedEvent,
  FinalAttempt,
  FinalEntry,
  FinalRun,
  FinalState,
  Outcome,
  Rules,
  State,
} from './history.js';

const MANUAL_RETRY = { type: 'RETRIED', msg: 'Manual retry', force: true };

/** What a run is created with. */
type Options = Partial<
  Pick<FinalRun, 'topic' | 'maxAttempts' | 'retryOn' | 'selector' | 'concurrency' | 'growth' | 'startAt'>
>;

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

interface IdealRun extends Omit<Mutable<FinalRun>, 'timeline' | 'attempts'> {
  readonly dependsOn: readonly Dependency[];
  readonly timeline: FinalEntry[];
  readonly attempts: Mutable<FinalAttempt>[];
  failures: number;
}

/** Part of an entry of a timeline. */
type NewEntry = Partial<FinalEntry> & { readonly type: string };

/**
 * A service that keeps every promise, in memory, with a clock that goes on by a second with each request; it writes
 * the history of those who use it. Made for the checker's own tests: its histories are clean, and each test spoils one.
 */
export class IdealService {
  readonly history: Call[] = [];
  readonly rules: Rules = { workerTimeoutMs: 10_000, maxReclaims: 2 };
  readonly #runs = new Map<string, IdealRun>();
  readonly #feeds = new Map<string, FeedEvent[]>();
  readonly #audit: AuditEntry[] = [];
  #now = 1_000_000;
  #serial = 0;

  get now(): number {
    return this.#now;
  }

  /** Lets time pass, in milliseconds. */
  pass(ms: number): void {
    this.#now += ms;
  }

  create(options: Options = {}, dependsOn: readonly Dependency[] = []): string {
    const mark = this.#unique('create');
    const id = this.#unique('run');
    this.#runs.set(id, {
      id,
      mark,
      state: 'PENDING',
      attempt: 1,
      topic: null,
      maxAttempts: 1,
      retryOn: null,
      selector: [],
      concurrency: null,
      growth: null,
      startAt: null,
      ...options,
      dependsOn,
      reclaims: 0,
      failures: 0,
      timeline: [],
      attempts: [newAttempt(1, options.growth?.ramMb ?? 0)],
    });
    const sent = this.#sent('client', { runId: id });
    this.history.push({ kind: 'create', mark, key: mark, dependsOn, ...sent });
    return id;
  }

  /** Hands the oldest pending run that the worker may have to it. */
  claim(worker: string, tags: readonly string[] = []): void {
    const run = [...this.#runs.values()].find((each) => this.#isClaimable(each, tags));
    if (!run) throw new Error(`there is no run for ${worker}`);
    const sent = this.#sent(worker, [{ runId: run.id, attempt: run.attempt }]);
    this.history.push({ kind: 'claim', worker, tags, key: this.#unique('claim'), ...sent });
    this.#become(run, 'ASSIGNED');
    Object.assign(this.#current(run), { worker, assignedAt: this.#now });
  }

  /** Reports an event as the worker; refused when it does not have the attempt. Answers the event's mark. */
  report(worker: string, runId: string, attempt: number, type: string, cause = 'error'): string {
    const run = this.#get(runId);
    const holds = run.attempt === attempt && this.#current(run).worker === worker && isInExecution(run.state);
    const mark = this.#unique('event');
    const call = { kind: 'event', runId, type, mark, key: mark, reporter: { worker, attempt } } as const;
    const sent = this.#sent(worker, null);
    this.history.push({ ...call, ...sent, ...(!holds && { outcome: { kind: 'refused', status: 409 } }) });
    if (!holds) return mark;
    if (type === 'STARTED') this.#become(run, 'RUNNING');
    if (type === 'COMPLETED') this.#become(run, 'COMPLETED');
    if (type !== 'FAILED') {
      this.#append(run, { type, mark, worker: type === 'STARTED' ? worker : null });
      this.#tell(run);
      return mark;
    }
    run.failures += 1;
    this.#become(run, 'FAILED');
    this.#current(run).cause = cause;
    this.#append(run, { type, mark, cause });
    if (run.failures < run.maxAttempts && (run.retryOn?.includes(cause) ?? true))
      this.#open(run, { type: 'RETRIED', msg: 'Automatic retry', force: false });
    this.#tell(run);
    return mark;
  }

  /** Notes something as a client. @param outcome what the client hears of it */
  note(runId: string, outcome: Outcome<null> = { kind: 'answered', value: null }): string {
    const mark = this.#unique('note');
    const call = { kind: 'event', runId, type: 'NOTE', mark, key: mark, reporter: null } as const;
    this.history.push({ ...call, ...this.#sent('client', null), outcome });
    this.#append(this.#get(runId), { type: 'NOTE', mark });
    return mark;
  }

  cancel(runId: string): void {
    const run = this.#get(runId);
    this.history.push({ kind: 'cancel', runId, ...this.#sent('client', null) });
    this.#become(run, 'CANCELLED');
    this.#append(run, { type: 'CANCELLED', msg: 'Cancelled by user' });
  }

  /** Opens another attempt; if it completes, so are those opened again that its end has cancelled. */
  retry(runId: string): void {
    this.history.push({ kind: 'retry', runId, ...this.#sent('client', null) });
    this.#open(this.#get(runId), MANUAL_RETRY);
  }

  /** Sets the priority. */
  patch(runId: string): void {
    this.history.push({ kind: 'patch', runId, state: null, ...this.#sent('admin', null) });
    this.#audit.push({ runId });
  }

  heartbeat(worker: string, running: readonly string[]): void {
    this.history.push({ kind: 'heartbeat', worker, running, ...this.#sent(worker, null) });
  }

  read(runId: string): void {
    const entries = this.#get(runId).timeline.map(({ id, type, t, mark }) => ({ id, type, t, mark }));
    this.history.push({ kind: 'read', runId, ...this.#sent('client', entries) });
  }

  /** Takes the run from its worker; it goes on in another attempt. */
  reclaim(runId: string): void {
    const run = this.#get(runId);
    run.reclaims += 1;
    this.#become(run, 'FAILED');
    this.#open(run, { type: 'RECLAIMED', msg: 'lost', worker: this.#current(run).worker });
  }

  /** Everything as it is now; each topic was also followed by one reader. */
  final(): FinalState {
    return structuredClone({
      runs: [...this.#runs.values()],
      audit: this.#audit,
      feeds: this.#feeds,
      tails: [...this.#feeds].map(([topic, events]) => ({ reader: 'reader', topic, events: [...events] })),
    });
  }

  #sent<T>(
    actor: string,
    value: T,
  ): { actor: string; startedAt: number; endedAt: number; outcome: Outcome<T> } {
    const startedAt = this.#now;
    this.#now += 1000;
    return { actor, startedAt, endedAt: startedAt + 500, outcome: { kind: 'answered', value } };
  }

  #unique(what: string): string {
    this.#serial += 1;
    return `${what}-${this.#serial}`;
  }

  #get(id: string): IdealRun {
    const run = this.#runs.get(id);
    if (!run) throw new Error(`there is no run ${id}`);
    return run;
  }

  #current(run: IdealRun): Mutable<FinalAttempt> {
    const attempt = run.attempts.at(-1);
    if (!attempt) throw new Error(`run ${run.id} has no attempt`);
    return attempt;
  }

  #isClaimable(
    { state, selector, startAt, concurrency, dependsOn }: IdealRun,
    tags: readonly string[],
  ): boolean {
    if (state !== 'PENDING' || !selector.every((tag) => tags.includes(tag))) return false;
    if (!dependsOn.every((one) => this.#isMet(one))) return false;
    const executing = [...this.#runs.values()].filter(
      (run) => isInExecution(run.state) && run.concurrency?.key === concurrency?.key,
    );
    return (startAt ?? 0) <= this.#now && (concurrency === null || executing.length < concurrency.limit);
  }

  #isMet({ run, when }: Dependency): boolean {
    const { state } = this.#get(run);
    return when === 'ended' ? isEnded(state) : when === state.toLowerCase();
  }

  /** Cancels those that wait for a run that has ended otherwise than they need it, and opens them again when it has not. */
  #tell({ id, state }: IdealRun): void {
    if (!isEnded(state)) return;
    for (const child of this.#runs.values()) {
      const dependency = child.dependsOn.find(({ run }) => run === id);
      if (!dependency) continue;
      const isMet = this.#isMet(dependency);
      if (isMet && child.timeline.at(-1)?.parent === id) this.#open(child, MANUAL_RETRY);
      if (isMet || child.state !== 'PENDING') continue;
      this.#become(child, 'CANCELLED');
      this.#append(child, { type: 'CANCELLED', cause: 'dependency', parent: id });
    }
  }

  #become(run: IdealRun, state: State): void {
    run.state = state;
    Object.assign(this.#current(run), { state, finishedAt: isEnded(state) ? this.#now : null });
  }

  #append(run: IdealRun, given: NewEntry): void {
    const unset = { mark: null, msg: '', worker: null, force: null, cause: null, parent: null };
    const { attempt } = run;
    const entry: FinalEntry = { ...unset, ...given, id: run.timeline.length, t: this.#now, attempt };
    run.timeline.push(entry);
    if (run.topic === null) return;
    const feed = this.#feeds.get(run.topic) ?? [];
    const { type, t, mark } = entry;
    feed.push({ cursor: this.#unique('cursor'), runId: run.id, attempt, type, t, mark });
    this.#feeds.set(run.topic, feed);
  }

  /** The next attempt of a run, after an entry of the one before. */
  #open(run: IdealRun, ending: NewEntry): void {
    this.#append(run, ending);
    const { ramMb, cause } = this.#current(run);
    const { growth } = run;
    const grows = growth !== null && growth.on.includes(cause ?? '');
    run.attempt += 1;
    run.state = 'PENDING';
    run.attempts.push(newAttempt(run.attempt, grows ? Math.min(growth.max, ramMb * growth.factor) : ramMb));
  }
}

function newAttempt(attempt: number, ramMb: number): Mutable<FinalAttempt> {
  return { attempt, state: 'PENDING', worker: null, assignedAt: null, finishedAt: null, ramMb, cause: null };
}

function isInExecution(state: State): boolean {
  return state === 'ASSIGNED' || state === 'RUNNING';
}
