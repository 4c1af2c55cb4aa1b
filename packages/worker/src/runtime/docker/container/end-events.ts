import { text } from 'node:stream/consumers';
import type Dockerode from 'dockerode';
import { withLimit } from '../engine/docker-engine.js';

/** Exit code of a program that SIGKILL has ended. */
export const KILLED = 137;

/** Exit codes of programs that an engine which is stopped has ended: by SIGTERM or SIGKILL. */
const ENDED_BY_SIGNAL: ReadonlySet<number> = new Set([143, KILLED]);

/** Events that an engine remembers. */
const KEPT_EVENTS = 256;

/** The engine waits for the reader of the output of a container that has ended for two seconds: longer than this, in milliseconds. */
const WAITED_MS = 1_500;

interface ToldEnd {
  /** Whether the engine ended the container. */
  readonly byEngine: boolean;
  readonly isAfterRestart: boolean;
}

/** An end that the engine has told at once. */
export const TOLD: ToldEnd = { byEngine: false, isAfterRestart: false };

/** What the events of an engine tell of the end of a container. */
export class EndEvents {
  constructor(
    private readonly engine: Dockerode,
    private readonly containerId: string,
    private readonly callMs: number,
  ) {}

  /**
   * How a container ended whose end the engine did not tell at once. An engine stops its containers when it is stopped, and when
   * it finds them after a crash; its events tell that, and begin with its start, unless it has had too many to keep since.
   * @param hasEnded before this process began to follow it
   */
  async readEnd(exitCode: number, finishedAt: string | null, hasEnded: boolean): Promise<ToldEnd> {
    const info: unknown = await withLimit(this.callMs, 'info', () => this.engine.info());
    if (Reflect.get(Object(info), 'LiveRestoreEnabled') === true) return TOLD;
    // The clock of the engine may be another one.
    const until = Date.parse(String(Reflect.get(Object(info), 'SystemTime'))) / 1000;
    const report = await this.read({ since: 1, until, filters: this.of('start', 'die', 'kill') });
    const has = (action: string): boolean => report.includes(`"Action":"${action}"`);
    if (hasEnded && !has('die')) {
      const [oldest = '', ...others] = (await this.read({ since: 1, until })).trim().split('\n');
      if (others.length + 1 >= KEPT_EVENTS && endedBefore(oldest, finishedAt))
        return { byEngine: ENDED_BY_SIGNAL.has(exitCode), isAfterRestart: false };
    }
    return { byEngine: !has('die') || has('kill'), isAfterRestart: !has('start') };
  }

  /**
   * Whether the engine has waited in vain for the reader of the output, and dropped the rest: it tells the end of a container only
   * then, long after it. Nothing is read unless the end was told that late: the reader may have had no turn itself.
   * @param toldMs by the clock of the engine, in milliseconds since 1970, of whole seconds
   */
  async hasWaitedForReader(finishedAt: string | null, toldMs: number): Promise<boolean> {
    const finishedMs = Date.parse(finishedAt ?? '');
    if (!(toldMs + 1_000 - finishedMs > WAITED_MS)) return false;
    const within = { since: Math.floor(finishedMs / 1000), until: toldMs / 1000 + 1 };
    try {
      const { timeNano }: { timeNano: number } = JSON.parse(
        await this.read({ ...within, filters: this.of('die') }),
      );
      return timeNano / 1e6 - finishedMs > WAITED_MS;
    } catch {
      return true;
    }
  }

  private of(...event: string[]): object {
    return { container: [this.containerId], event };
  }

  private read(asked: { since: number; until: number; filters?: object }): Promise<string> {
    return withLimit(this.callMs, 'events', async (abortSignal) =>
      text(await this.engine.getEvents({ ...asked, abortSignal })),
    );
  }
}

function endedBefore(event: string, finishedAt: string | null): boolean {
  const { time }: { time?: unknown } = Object(JSON.parse(event));
  return typeof time === 'number' && Date.parse(finishedAt ?? '') < time * 1000;
}
