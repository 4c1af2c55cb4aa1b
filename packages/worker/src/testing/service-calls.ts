import type { JsonValue } from '@longshore/common/json/json-value';
import { HttpServiceApi } from '../service-api/http-service-api.js';
import type { ClaimCall, HeartbeatCall, HeartbeatReport } from '../service-api/service-api.js';

/** The heartbeat of a worker that has nothing and does nothing. */
export const IDLE_REPORT: HeartbeatReport = {
  workerId: 'w',
  resources: { cpuCores: 1, ramMb: 1, gpus: [] },
  load: null,
  tags: [],
  capabilities: [],
  notClaiming: [],
  unable: [],
  runningOps: [],
  endingOps: [],
  containerEngine: null,
  awaySeconds: null,
};

/** A heartbeat or claim that does not wait. */
export const CALL: HeartbeatCall & ClaimCall = {
  waitSeconds: 0,
  timeoutMs: 15_000,
  signal: new AbortController().signal,
  onAssigned: () => undefined,
};

export const REPORTER = { workerId: 'w', attempt: 1, idempotencyKey: 'k', trace: null };

/** A run as the service shows it. */
export const SHOWN_RUN = {
  id: 'r',
  state: 'RUNNING',
  current_attempt: 2,
  image: 'i',
  inputs: { a: 1 },
  outputs: { u: 'x' },
  execution_summary: { worker_id: 'w' },
};

/** A request as the service gets it. */
export interface ReceivedRequest {
  /** Method, path and query. */
  readonly route: string;
  readonly headers: Headers;
  /** The text of its body. */
  readonly body: string;
}

/** A service that answers as it is told. */
export class StubService {
  readonly received: ReceivedRequest[] = [];
  answer: (request: ReceivedRequest) => Response | Promise<Response>;
  readonly api = new HttpServiceApi({
    baseUrl: 'http://service.test',
    apiKey: 'secret',
    fetch: async (request) => {
      const { method, url, headers } = request;
      const route = `${method} ${url.replace('http://service.test', '')}`;
      const one = { route, headers, body: await request.text() };
      this.received.push(one);
      return this.answer(one);
    },
  });

  /** @param answers JSON of a 200, or what gives the answer */
  constructor(answers: JsonValue | ReceivedAnswer = {}) {
    this.answer = typeof answers === 'function' ? answers : () => Response.json(answers);
  }

  /** Its routes and bodies, which are JSON. */
  bodies(): unknown[] {
    return this.received.map(({ body }) => JSON.parse(body));
  }
}

type ReceivedAnswer = StubService['answer'];
