import { isJsonObject } from '@longshore/common/json/json-value';
import { claimedRuns, eventTypeOf, kindOf, type Exchange } from '../exchange.js';
import type { RequestFault } from '../fault-proxy.js';
import { checkTimeline } from '../kit-runs.js';
import { IMAGES } from '../program-traces.js';
import { check, type Scenario } from '../scenario.js';
import type { ScenarioContext } from '../scenario-context.js';

const PROGRESS = '{"type":"PROGRESS","msg":30}';

/** What a proxy answers to the first tries of each kind of request. */
const PAGES: Readonly<Record<string, readonly number[]>> = {
  heartbeat: [404],
  claim: [404, 413],
  run: [404],
  STARTED: [400],
  PROGRESS: [413],
  log: [404, 400],
  COMPLETED: [400, 403, 200],
};

const REFUSED_ONCE = ['heartbeat', 'claim', 'run', 'STARTED', 'PROGRESS', 'log', 'COMPLETED'];

/** What stands between worker and service: other servers that answer, one of several that errs, a slow line. */
export const PROXIES: readonly Scenario[] = [
  {
    name: 'foreign-answers',
    promise:
      "answers that are not in a form of the service's, 4xx among them, are repeated like missing ones",
    async run(context) {
      await context.startWorker();
      answerFirst(context, (about, count) => {
        const status = PAGES[about]?.[count];
        return status === undefined ? null : { kind: 'page', status };
      });
      await executeOnce(context, 'foreign-answers');
    },
  },
  {
    name: 'odd-refusals',
    promise: 'one 401 or 403 of the service stops nothing: the request is repeated',
    async run(context) {
      const worker = await context.startWorker();
      for (const status of [401, 403]) {
        answerFirst(context, (about, count) =>
          count === 0 && REFUSED_ONCE.includes(about) ? { kind: 'answer', status } : null,
        );
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

/** @param fault of a request about this, an event type or a kind, which is the n-th such request, 0-based */
function answerFirst(
  { proxy }: ScenarioContext,
  fault: (about: string, count: number) => RequestFault | null,
): void {
  const counts = new Map<string, number>();
  proxy.faults = {
    onRequest: (asked) => {
      const about = eventTypeOf(asked) ?? kindOf(asked);
      const count = counts.get(about) ?? 0;
      counts.set(about, count + 1);
      return fault(about, count);
    },
  };
}

/** A run is executed once, with its event, its outputs, and its log if the worker ships logs. */
async function executeOnce(context: ScenarioContext, mark: string): Promise<void> {
  const { runs } = context;
  const id = await runs.create(IMAGES.plain, { mark, print: [PROGRESS], outputs: { once: mark } });
  const run = await runs.untilState(id, 'COMPLETED');
  checkTimeline(run, '1 STARTED, 1 PROGRESS 30, 1 COMPLETED');
  check(run.outputs['once'] === mark, 'the outputs are lost');
  await context.checkStarts(mark, 1);
  const chunks = () => context.since(0).filter((asked) => kindOf(asked) === 'log' && asked.path.includes(id));
  if (chunks().length > 0)
    await context.until('the log is stored to its end', () => chunks().some(isEndStored));
}

function isEndStored({ body, answer }: Exchange): boolean {
  return answer?.status === 200 && isJsonObject(body) && body['is_last'] === true;
}
