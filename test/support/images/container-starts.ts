import { setTimeout as sleep } from 'node:timers/promises';
import type Docker from 'dockerode';
import { ATTEMPT_LABEL, RUN_LABEL } from '@longshore/worker/runtime/docker/container/container-options';

/** The starts of containers that an engine reports, by run and attempt. */
export class ContainerStarts {
  /** Ids of the containers by `RUN/ATTEMPT`. */
  readonly byAttempt = new Map<string, Set<string>>();
  private readonly stop = new AbortController();
  private readonly done: Promise<void>;
  private since = Math.floor(Date.now() / 1000);

  /** Begins at once; the engine may be restarted meanwhile. */
  constructor(private readonly docker: Docker) {
    this.done = this.follow();
  }

  async close(): Promise<void> {
    this.stop.abort();
    await this.done;
  }

  private async follow(): Promise<void> {
    const { signal } = this.stop;
    while (!signal.aborted) {
      try {
        // A restarted engine has forgotten none of its own time.
        const events = await this.docker.getEvents({
          since: this.since,
          filters: { type: ['container'], event: ['start'] },
          abortSignal: signal,
        });
        let rest = '';
        for await (const piece of events) {
          const lines = (rest + piece.toString()).split('\n');
          rest = lines.pop() ?? '';
          for (const line of lines) this.record(JSON.parse(line));
        }
      } catch {
        // The engine is away.
      }
      await sleep(20);
    }
  }

  private record({ time, Actor: { ID, Attributes } }: StartEvent): void {
    this.since = Math.max(this.since, time - 1);
    const { [RUN_LABEL]: run, [ATTEMPT_LABEL]: attempt } = Attributes;
    // Probes have no run.
    if (run === undefined) return;
    const key = `${run}/${attempt}`;
    this.byAttempt.set(key, (this.byAttempt.get(key) ?? new Set()).add(ID));
  }
}

interface StartEvent {
  /** Seconds since 1970. */
  readonly time: number;
  readonly Actor: { readonly ID: string; readonly Attributes: Readonly<Record<string, string | undefined>> };
}
