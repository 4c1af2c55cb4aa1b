import { isJsonObject } from '@longshore/common/json/json-value';
import { claimedRuns, kindOf, namedRuns, type Exchange } from '../exchange.js';
import { check, type Scenario } from '../scenario.js';
import { checkTimeline } from '../kit-runs.js';

/** Seconds that the first of several runs takes: time for a heartbeat. */
const FIRST_S = 1.5;

/** Time in which a heartbeat that was made before a claim's answer may still arrive, in milliseconds. */
const CROSSING_MS = 200;

const MARKS = ['several-first', 'several-second'] as const;

/** Unusual answers to claims. */
export const CLAIMS: readonly Scenario[] = [
  {
    name: 'several-runs',
    promise: 'every run of an answer is named and executed once, also one that is listed twice',
    async run(context) {
      const { runs, proxy, workerId } = context;
      let given: Exchange | null = null;
      proxy.faults = {
        async onAnswer(asked) {
          if (given !== null || claimedRuns(asked).length !== 1) return null;
          given = asked;
          const [first] = opsOf(asked.answer?.body);
          const others = asked.query.get('max') === '1' ? [] : await runs.claimFor(workerId);
          return { kind: 'alter', body: { ops: [first, ...others, first] } };
        },
      };
      await context.startWorker();
      const ids = [
        await runs.create({ mark: MARKS[0], sleep_s: FIRST_S }),
        await runs.create({ mark: MARKS[1] }),
      ];
      for (const id of ids) checkTimeline(await runs.untilState(id, 'COMPLETED'), '1 STARTED, 1 COMPLETED');
      for (const mark of MARKS) await context.checkStarts(mark, 1);
      for (const id of ids) {
        const claim = proxy.exchanges.find((asked) => claimedRuns(asked).includes(id)) ?? given;
        const fromMs = (claim?.doneAtMs ?? 0) + CROSSING_MS;
        const toMs = context.reportsOf(id, 'COMPLETED').at(-1)?.atMs ?? 0;
        const silent = proxy.exchanges.filter(
          (asked) =>
            kindOf(asked) === 'heartbeat' &&
            asked.atMs > fromMs &&
            asked.atMs < toMs &&
            !namedRuns(asked).includes(id),
        ).length;
        check(silent === 0, `${silent} heartbeats did not name a run of a claim's answer in running_ops`);
      }
    },
  },
];

function opsOf(body: unknown): unknown[] {
  const ops = isJsonObject(body) ? body['ops'] : null;
  return Array.isArray(ops) ? ops : [];
}
