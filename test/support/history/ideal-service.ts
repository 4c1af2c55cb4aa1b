import type {
  AuditEntry,
  Call,
  FeedEvent,
  FinalAttempt,
  FinalEntry,
  FinalRun,
  FinalState,
  Outcome,
  Rules,
  State,
} from './history.js';

/** What a run is created with. */
export type Options = Partial<
  Pick<FinalRun, 'topic' | 'maxAttempts' | 'retryOn' | 'selector' | 'concurrency' | 'growth' | 'startAt'>
> & { hears?: Hears };

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

interface IdealRun extends Omit<Mutable<FinalRun>, 'timeline' | 'attempts'> {
  readonly timeline: FinalEntry[];
  readonly attempts: Mutable<FinalAttempt>[];
  failures: number;
}

/** Whether the one who asked hears the answer. */
export type Hears = 'hears' | 'does not hear';

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

  get runs(): readonly FinalRun[] {
    return [...this.#runs.values()];
  }

  /** Lets time pass, in milliseconds. */
  pass(ms: number): void {
    this.#now += ms;
  }

  create({ hears, ...options }: Options = {}): string {
    const mark = this.#unique('create');
    const id = this.#unique('run');
    const attempt: FinalAttempt = {
      attempt: 1,
      state: 'PENDING',
      worker: null,
      assignedAt: null,
      finishedAt: null,
      ramMb: options.growth?.ramMb ?? 0,
      cause: null,
    };
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
      reclaims: 0,
      failures: 0,
      timeline: [],
      attempts: [attempt],
    });
    this.history.push({
      kind: 'create',
      mark,
      key: mark,
      ...this.#sent('client', heard({ runId: id }, hears)),
    });
    return id;
  }

  /** Hands the oldest pending run that the worker may have to it; undefined when there is none. */
  claim(
    worker: string,
    hears?: Hears,
    tags: readonly string[] = [],
  ): { runId: string; attempt: number } | undefined {
    const run = [...this.#runs.values()].find((each) => this.#isClaimable(each, tags));
    const handed = run && [{ runId: run.id, attempt: run.attempt }];
    const sent = this.#sent(worker, heard(handed ?? [], hears));
    this.history.push({ kind: 'claim', worker, tags, key: this.#unique('claim'), ...sent });
    if (!run) return undefined;
    this.#become(run, 'ASSIGNED');
    Object.assign(this.#current(run), { worker, assignedAt: this.#now });
    return handed?.[0];
  }

  /** Reports an event as the worker; refused when it does not have the attempt. Answers the event's mark. */
  report(
    worker: string,
    runId: string,
    attempt: number,
    type: string,
    hears?: Hears,
    cause = 'error',
  ): string {
    const run = this.#get(runId);
    const holds = run.attempt === attempt && this.#current(run).worker === worker && isInExecution(run.state);
    const mark = this.#unique('event');
    const outcome: Outcome<null> = holds ? heard(null, hears) : { kind: 'refused', status: 409 };
    const reporter = { worker, attempt };
    this.history.push({
      kind: 'event',
      runId,
      type,
      mark,
      key: mark,
      reporter,
      ...this.#sent(worker, outcome),
    });
    if (!holds) return mark;
    if (type === 'STARTED') this.#become(run, 'RUNNING');
    if (type === 'COMPLETED') this.#become(run, 'COMPLETED');
    if (type !== 'FAILED') {
      this.#append(run, { type, mark, worker: type === 'STARTED' ? worker : null });
      return mark;
    }
    run.failures += 1;
    this.#become(run, 'FAILED');
    this.#current(run).cause = cause;
    this.#append(run, { type, mark, cause });
    if (run.failures < run.maxAttempts && (run.retryOn?.includes(cause) ?? true))
      this.#open(run, { type: 'RETRIED', msg: 'Automatic retry', force: false });
    return mark;
  }

  /** Notes something as a client; refused when the run has ended. */
  note(runId: string, hears?: Hears): string {
    const run = this.#get(runId);
    const mark = this.#unique('note');
    const outcome: Outcome<null> = isEnded(run.state) ? { kind: 'refused', status: 400 } : heard(null, hears);
    const call = { kind: 'event', runId, type: 'NOTE', mark, key: mark, reporter: null } as const;
    this.history.push({ ...call, ...this.#sent('client', outcome) });
    if (!isEnded(run.state)) this.#append(run, { type: 'NOTE', mark });
    return mark;
  }

  cancel(runId: string, hears?: Hears): void {
    const run = this.#get(runId);
    const outcome: Outcome<null> = isEnded(run.state) ? { kind: 'refused', status: 400 } : heard(null, hears);
    this.history.push({ kind: 'cancel', runId, ...this.#sent('client', outcome) });
    if (isEnded(run.state)) return;
    this.#become(run, 'CANCELLED');
    this.#append(run, { type: 'CANCELLED', msg: 'Cancelled by user' });
  }

  retry(runId: string, hears?: Hears): void {
    const run = this.#get(runId);
    this.history.push({ kind: 'retry', runId, ...this.#sent('client', heard(null, hears)) });
    if (!isEnded(run.state)) Object.assign(this.#current(run), { state: 'CANCELLED', finishedAt: this.#now });
    Object.assign(run, { failures: 0, reclaims: 0 });
    this.#open(run, { type: 'RETRIED', msg: 'Manual retry', force: true });
  }

  /** Sets the priority. */
  patch(runId: string, hears?: Hears): void {
    this.history.push({ kind: 'patch', runId, state: null, ...this.#sent('admin', heard(null, hears)) });
    this.#audit.push({ runId });
  }

  heartbeat(worker: string, running: readonly string[], hears?: Hears): void {
    this.history.push({ kind: 'heartbeat', worker, running, ...this.#sent(worker, heard(null, hears)) });
  }

  read(runId: string): void {
    const entries = this.#get(runId).timeline.map(({ id, type, t, mark }) => ({ id, type, t, mark }));
    this.history.push({ kind: 'read', runId, ...this.#sent('client', heard(entries)) });
  }

  /** Takes the run from its worker. */
  reclaim(runId: string): void {
    const run = this.#get(runId);
    const { worker } = this.#current(run);
    run.reclaims += 1;
    this.#become(run, 'FAILED');
    const loss = { type: 'RECLAIMED', msg: 'lost', worker } as const;
    if (run.reclaims > this.rules.maxReclaims) this.#append(run, loss);
    else this.#open(run, loss);
  }

  /** Everything as it is now; each topic was also followed by one reader. */
  final(): FinalState {
    return structuredClone({
      runs: this.runs,
      audit: this.#audit,
      feeds: this.#feeds,
      tails: [...this.#feeds].map(([topic, events]) => ({ reader: 'reader', topic, events: [...events] })),
    });
  }

  #sent<T>(
    actor: string,
    outcome: Outcome<T>,
  ): { actor: string; startedAt: number; endedAt: number; outcome: Outcome<T> } {
    const startedAt = this.#now;
    this.#now += 1000;
    return { actor, startedAt, endedAt: startedAt + 500, outcome };
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

  #isClaimable({ state, selector, startAt, concurrency }: IdealRun, tags: readonly string[]): boolean {
    if (state !== 'PENDING' || !selector.every((tag) => tags.includes(tag))) return false;
    const executing = this.runs.filter(
      (run) => isInExecution(run.state) && run.concurrency?.key === concurrency?.key,
    );
    return (startAt ?? 0) <= this.#now && (concurrency === null || executing.length < concurrency.limit);
  }

  #become(run: IdealRun, state: State): void {
    run.state = state;
    Object.assign(this.#current(run), { state, finishedAt: isEnded(state) ? this.#now : null });
  }

  #append(run: IdealRun, given: Partial<FinalEntry> & { readonly type: string }): void {
    const place = { id: run.timeline.length, t: this.#now, attempt: run.attempt };
    const entry: FinalEntry = {
      mark: null,
      msg: '',
      worker: null,
      force: null,
      cause: null,
      ...given,
      ...place,
    };
    run.timeline.push(entry);
    if (run.topic === null) return;
    const feed = this.#feeds.get(run.topic) ?? [];
    const { attempt, type, t, mark } = entry;
    feed.push({ cursor: this.#unique('cursor'), runId: run.id, attempt, type, t, mark });
    this.#feeds.set(run.topic, feed);
  }

  #open(run: IdealRun, ending: Partial<FinalEntry> & { readonly type: string }): void {
    this.#append(run, ending);
    const { ramMb, cause: failedBy } = this.#current(run);
    const { growth } = run;
    const grows = growth !== null && growth.on.includes(failedBy ?? '');
    run.attempt += 1;
    run.state = 'PENDING';
    run.attempts.push({
      attempt: run.attempt,
      state: 'PENDING',
      worker: null,
      assignedAt: null,
      finishedAt: null,
      ramMb: grows ? Math.min(growth.max, ramMb * growth.factor) : ramMb,
      cause: null,
    });
  }
}

function heard<T>(value: T, hears: Hears = 'hears'): Outcome<T> {
  return hears === 'hears' ? { kind: 'answered', value } : { kind: 'maybe' };
}

function isEnded(state: State): boolean {
  return state === 'COMPLETED' || state === 'FAILED' || state === 'CANCELLED';
}

function isInExecution(state: State): boolean {
  return state === 'ASSIGNED' || state === 'RUNNING';
}
