import { isJsonObject } from '@longshore/common/json/json-value';
import { claimedRuns, eventTypeOf, headerOf, inOrder, kindOf, type Exchange } from '../exchange.js';
import type { RequestFault } from '../fault-proxy.js';
import { checkTimeline } from '../kit-runs.js';
import { check, type Scenario } from '../scenario.js';
import type { ScenarioContext } from '../scenario-context.js';

const PROGRESS = '{"type":"PROGRESS","msg":30}';

const page = (status: number): RequestFault => ({ kind: 'page', status });

/** What a proxy answers to the first tries of each kind of request. */
const PAGES = {
  heartbeat: [page(404)],
  claim: [page(404), page(413)],
  run: [page(404)],
  STARTED: [page(400)],
  PROGRESS: [page(413)],
  log: [page(404), page(400)],
  COMPLETED: [page(400), page(403), page(200)],
};

/** What stands between worker and service: other servers that answer, one of several that errs, a slow line. */
export const PROXIES: readonly Scenario[] = [
  {
    name: 'foreign-answers',
    promise:
      "answers that are not in a form of the service's, 4xx among them, are repeated like missing ones",
    async run(context) {
      await context.startWorker();
      context.proxy.faults = { onRequest: inOrder(PAGES) };
      await executeOnce(context, 'foreign-answers');
    },
  },
  {
    name: 'refusing-proxy',
    promise:
      'a COMPLETED or FAILED that a proxy refuses for what it contains, while heartbeats arrive, is repeated for the worker timeout, then becomes a FAILED that arrives',
    async run(context) {
      await context.startWorker();
      await refusedByProxy(context, 'COMPLETED', 413);
      await refusedByProxy(context, 'FAILED', 403);
      context.proxy.faults = {};
      await context.checkAnotherRun();
    },
  },
  {
    name: 'odd-refusals',
    promise: 'one 401 or 403 of the service stops nothing: the request is repeated',
    async run(context) {
      const worker = await context.startWorker();
      for (const status of [401, 403]) {
        const refusals: readonly RequestFault[] = [{ kind: 'answer', status }];
        const refused = Object.fromEntries(Object.keys(PAGES).map((about) => [about, refusals]));
        context.proxy.faults = { onRequest: inOrder(refused) };
        const ended = worker.exited.then(() => check(false, `the worker ended because of one ${status}`));
        await Promise.race([executeOnce(context, `odd-refusals-${status}`), ended]);
      }
    },
  },
  {
    name: 'slow-answer',
    promise: "a claim's answer may arrive for longer than the worker timeout, and heartbeats name its runs",
    async run(context) {
      const { proxy } = context;
      proxy.faults = {
        onAnswer: (asked) =>
          claimedRuns(asked).length === 0 ? null : { kind: 'trickle', ms: context.timeoutMs * 3 },
      };
      await context.startWorker();
      await executeOnce(context, 'slow-answer');
    },
  },
];

/** A proxy answers each try of the first report of the type with a page. */
async function refusedByProxy(context: ScenarioContext, type: string, status: number): Promise<void> {
  const { proxy, runs } = context;
  const tries: Exchange[] = [];
  proxy.faults = {
    onRequest: (asked) => {
      const key = headerOf(asked, 'Idempotency-Key');
      const [first] = tries;
      if (eventTypeOf(asked) !== type || (first && key !== headerOf(first, 'Idempotency-Key'))) return null;
      tries.push(asked);
      return page(status);
    },
  };
  const isExit = type === 'FAILED';
  const mark = `refusing-proxy-${type}`;
  const id = await runs.create({ mark, exit: isExit ? 1 : 0, outputs: { refused: 'x'.repeat(5000) } });
  const run = await runs.untilState(id, 'FAILED');
  const { execution_summary: summary } = run;
  checkTimeline(run, '1 STARTED, 1 FAILED');
  const repeatedMs = (tries.at(-1)?.atMs ?? 0) - (tries[0]?.atMs ?? 0);
  check(tries.length >= 5, `the ${type} was given up after ${tries.length} tries`);
  check(repeatedMs >= context.timeoutMs / 2, `the ${type} was given up after ${repeatedMs.toFixed(0)} ms`);
  const cause = isExit ? 'exit' : 'error';
  check(summary.cause === cause, `the cause should be ${cause}; it is ${summary.cause ?? 'none'}`);
  const message = summary.error_message ?? '';
  check(message.includes(String(status)), `error_message does not name the status ${status}: ${message}`);
}

/** A run is executed once, with its event, its outputs, and its log if the worker ships logs. */
async function executeOnce(context: ScenarioContext, mark: string): Promise<void> {
  const program = { mark, print: [PROGRESS], outputs: { once: mark } };
  const { id, outputs } = await context.completedRun(program, '1 STARTED, 1 PROGRESS 30, 1 COMPLETED');
  check(outputs['once'] === mark, 'the outputs are lost');
  const chunks = () => context.since(0).filter((asked) => kindOf(asked) === 'log' && asked.path.includes(id));
  if (chunks().length > 0)
    await context.until('the log is stored to its end', () => chunks().some(isEndStored));
}

function isEndStored({ body, answer }: Exchange): boolean {
  return answer?.status === 200 && isJsonObject(body) && body['is_last'] === true;
}
