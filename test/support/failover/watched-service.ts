import assert from 'node:assert/strict';
import { CHAOS_ENV } from '../history/chaos-deployment.js';
import { countLive, readFinalState } from '../history/final-state.js';
import type { Call, FinalState } from '../history/history.js';
import { LoadClient, TOPICS, type Quota } from '../history/load-client.js';
import { RecordedService } from '../history/recorded-service.js';
import { SeededRandom } from '../history/seeded-random.js';
import { Wire } from '../history/wire.js';
import { WorkerCrew } from '../history/worker-crew.js';
import { readyPids, startCluster } from '../programs/server-processes.js';
import { until, type ServiceProcess } from '../service-process.js';
import { PageFollower, StreamFollower } from './feed-followers.js';

const KEY = 'failover-admin-key-of-the-tests';
const SERVER_PROCESSES = 2;
const WORKERS = 8;
/** Longer than an answer takes, shorter than any failover. */
const UNDER_WAY_MS = 1000;

/** Who uses a service. */
export interface Load {
  readonly clients: number;
  /** That the clients create at most. */
  readonly runsASecond: number;
}

/** A service of two server processes under load, of which every request is written down. */
export class WatchedService {
  readonly #pages: readonly PageFollower[];
  readonly #streams: readonly StreamFollower[];
  /** Seconds without an acknowledged write after each failover. */
  readonly silences: number[] = [];
  readonly #crew: WorkerCrew;
  readonly #clients: readonly LoadClient[];

  private constructor(
    private readonly server: ServiceProcess,
    private readonly wire: Wire,
    private readonly service: RecordedService,
    readonly name: string,
    load: Load,
  ) {
    this.#pages = TOPICS.map((topic) => new PageFollower(service, topic));
    this.#streams = TOPICS.map((topic) => new StreamFollower(server.url, KEY, topic));
    this.#crew = new WorkerCrew(service, load.clients, WORKERS);
    const quota = atMost(load.runsASecond);
    this.#clients = Array.from({ length: load.clients }, (_, i) => {
      const client = `client-${i}`;
      return new LoadClient(client, service, SeededRandom.for(load.clients, client), quota);
    });
  }

  /**
   * Starts the service and its load.
   * @param url of its database
   * @param load with the name that reports give the service
   */
  static async start(url: string, load: Load & { readonly name: string }): Promise<WatchedService> {
    const server = await startCluster(
      {
        env: {
          DATABASE_URL: url,
          SERVICE_API_KEYS: `admin:${KEY}`,
          ...CHAOS_ENV,
        },
      },
      SERVER_PROCESSES,
    );
    const wire = new Wire(Number(new URL(server.url).port), KEY);
    return new WatchedService(server, wire, new RecordedService([wire]), load.name, load);
  }

  /** Who follows the feeds. */
  get readers(): readonly (PageFollower | StreamFollower)[] {
    return [...this.#pages, ...this.#streams];
  }

  get acknowledged(): number {
    return this.service.acknowledgedWrites;
  }

  /** What clients and workers were told so far. */
  get history(): readonly Call[] {
    return this.service.history;
  }

  /** Waits until so many writes more have been acknowledged. */
  async untilAcknowledged(more: number): Promise<void> {
    const goal = this.acknowledged + more;
    await until(() => this.acknowledged >= goal, `${more} writes are acknowledged: ${this.server.output}`);
  }

  /**
   * Waits for the first write that is acknowledged after a failover that began then, and notes the silence. Answers that
   * were under way arrive soon and do not count.
   */
  async untilBack(since: number): Promise<void> {
    await until(() => this.service.lastAcknowledgedAt > since + UNDER_WAY_MS, 'a write is acknowledged');
    this.silences.push(Math.round((RecordedService.now() - since) / 100) / 10);
  }

  /** Lets the clients finish, and waits for the end of every run. @throws AssertionError when one does not end */
  async rest(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.stop()));
    await until(async () => (await countLive(this.service)) === 0, 'every run ends');
    await this.#crew.stop();
    await Promise.all(this.#pages.map((page) => page.stop()));
    await Promise.all(this.#streams.map((stream, i) => stream.stop(this.#pages[i]?.last)));
  }

  /** Reads everything when all rest, and ends the service. */
  async finish(): Promise<FinalState> {
    const final = await readFinalState(this.service, []);
    const tails = this.readers.map((reader) => reader.view(final.feeds.get(reader.topic) ?? []));
    assert.equal(readyPids(this.server).length, SERVER_PROCESSES, 'a server process was started again');
    assert.equal(await this.server.stop(), 0);
    this.wire.close();
    return { ...final, tails };
  }

  /** For people: what it came to. */
  get figures(): string {
    const statuses = Object.fromEntries(this.wire.statuses);
    return JSON.stringify({ acknowledgedWrites: this.acknowledged, silenceS: this.silences, statuses });
  }
}

/** So many runs a second; what was not taken in its second is gone. */
function atMost(runsASecond: number): Quota {
  let free = runsASecond;
  let since = performance.now();
  return {
    take: () => {
      const now = performance.now();
      free = Math.min(runsASecond, free + ((now - since) * runsASecond) / 1000);
      since = now;
      if (free < 1) return false;
      free -= 1;
      return true;
    },
    putBack: () => undefined,
  };
}
