import type { MetricObjectWithValues, MetricValue } from 'prom-client';

/** Marks a process that the primary forked: the service may itself run in the cluster of a process manager. */
export const SERVER_PROCESS = 'SERVICE_SERVER_PROCESS';

/** All metrics of one process, as `Registry.getMetricsAsJSON()` returns them. */
export type Counts = readonly MetricObjectWithValues<MetricValue<string>>[];

/** Why a process cannot start. */
export interface StartFailure {
  /** Lines for standard error. */
  readonly problems: readonly string[];
  readonly exitCode: number;
}

/** What a server process calls in the primary. */
export interface PrimaryApi {
  /** @returns the URL of the database */
  setUp(): string;
  /** The process is ready to listen. @returns the port */
  prepared(): number;
  /** The process listens at a URL. */
  ready(url: string): void;
  /** The process cannot start. */
  failed(failure: StartFailure): void;
  /** @returns the metrics of all processes as text */
  scrape(): string;
  /** The last counts of a process that ends. */
  leave(counts: Counts): void;
}

/** What the primary calls in a server process. */
export interface ProcessApi {
  count(): Counts;
}

type Method = (argument: never) => unknown;
type Argument<F> = F extends (argument: infer A) => unknown ? A : never;
type Result<F> = F extends Method ? Awaited<ReturnType<F>> : never;

/** The implementation of one side. */
export type Handlers<Api> = {
  readonly [K in keyof Api]: (argument: Argument<Api[K]>) => Result<Api[K]> | Promise<Result<Api[K]>>;
};

interface Message {
  readonly longshore: 'call' | 'result';
  readonly id: number;
  /** Of a call. */
  readonly name?: string;
  /** Argument, or result. */
  readonly value?: unknown;
  /** Of a failed call. */
  readonly error?: string;
}

/** Calls between the primary and a server process, over the IPC channel of node:cluster. */
export class IpcChannel<Remote, Local> {
  readonly #pending = new Map<number, Record<'resolve' | 'reject', (value: unknown) => void>>();
  #lastId = 0;
  #closed: Error | undefined;

  /** @param send drops the message when the other process is gone */
  constructor(
    private readonly send: (message: object) => void,
    private readonly handlers: Handlers<Local>,
  ) {}

  /** @throws Error of the other side, after the timeout, or the reason of `close` */
  async call<K extends keyof Remote & string>(
    name: K,
    value?: Argument<Remote[K]>,
    timeoutMs?: number,
  ): Promise<Result<Remote[K]>> {
    if (this.#closed) throw this.#closed;
    this.#lastId += 1;
    const id = this.#lastId;
    let timer: NodeJS.Timeout | undefined;
    const result = new Promise<unknown>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      if (timeoutMs === undefined) return;
      timer = setTimeout(() => reject(new Error(`no answer to ${name} within ${timeoutMs} ms`)), timeoutMs);
    });
    try {
      this.send({ longshore: 'call', id, name, value } satisfies Message);
      // Both sides run the same program.
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion
      return (await result) as Result<Remote[K]>;
    } finally {
      clearTimeout(timer);
      this.#pending.delete(id);
    }
  }

  /** Takes a message of the other process; ignores those of libraries. */
  receive(message: unknown): void {
    if (!isMessage(message)) return;
    if (message.longshore === 'call') return void this.#answer(message);
    const call = this.#pending.get(message.id);
    if (message.error === undefined) call?.resolve(message.value);
    else call?.reject(new Error(message.error));
  }

  /** Rejects all calls, also later ones. */
  close(reason: Error): void {
    this.#closed = reason;
    for (const { reject } of this.#pending.values()) reject(reason);
  }

  async #answer({ id, name, value }: Message): Promise<void> {
    const answer = { longshore: 'result', id } as const;
    try {
      const handler: unknown = Reflect.get(this.handlers, name ?? '');
      if (typeof handler !== 'function') throw new TypeError(`unknown call ${name}`);
      this.send({ ...answer, value: await Reflect.apply(handler, undefined, [value]) } satisfies Message);
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      this.send({ ...answer, error: text } satisfies Message);
    }
  }
}

function isMessage(message: unknown): message is Message {
  return typeof message === 'object' && message !== null && 'longshore' in message;
}
