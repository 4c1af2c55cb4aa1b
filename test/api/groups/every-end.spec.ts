import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { NEEDS } from '../../../src/runs/machine/run.js';
import { TERMINAL_STATES, type TerminalState } from '../../../src/runs/machine/run-state.js';
import { letTimePass, until } from '../../support/app/passing-time.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { BulkSteps } from '../../support/runs/bulk-steps.js';

const HOUR_S = 3600;
const HIGHEST = 2 ** 31 - 1;

/** A run that others wait for; `group` is null if it is in none. */
interface Parent {
  readonly run: string;
  readonly group: string | null;
}

/** A way to the end of a run. */
interface Way {
  readonly end: TerminalState;
  /** Of its group; the same unless given. */
  readonly groupEnd?: TerminalState;
  /** Of the run, which is the one member of a group unless `make` makes it otherwise. */
  readonly body?: object;
  readonly make?: () => Promise<Parent>;
  /** Undefined: it has ended when it is made. @param stillWait checks that those wait that wait for the parent */
  readonly take?: (parent: Parent, stillWait: () => Promise<void>) => Promise<unknown>;
}

/** A run that waits for a parent or its group. */
interface Child {
  readonly id: string;
  readonly on: { readonly run: string } | { readonly group: string };
  readonly need: (typeof NEEDS)[number];
  readonly end: TerminalState;
}

const isMet = ({ need, end }: Child): boolean => need === 'ended' || need === end.toLowerCase();

describe('runs that wait for a run and for its group', () => {
  // The second lost worker ends a run.
  const service = useTestApp({ env: { SERVICE_MAX_RECLAIMS: '1', SERVICE_LOSS_PATIENCE: '0' } });
  const steps = new GroupSteps(service);
  const bulk = new BulkSteps((...request) => service.send(...request));
  const { runs } = steps;
  let made = 0;

  const send = async (method: string, path: string, body?: object) => {
    const answer = await service.send(method, path, { ...(body && { body }) });
    assert.ok(answer.status < 300, answer.text);
    return answer.body;
  };
  const patch = (id: string, state: string): Promise<unknown> => send('PATCH', `/runs/${id}`, { state });
  const pass = (id: string): Promise<void> => letTimePass(service.dataSource, [id], HOUR_S);
  const untilAttempt = (id: string, attempt: number): Promise<unknown> =>
    steps.untilRun(id, (run) => run.state === 'PENDING' && run.current_attempt === attempt);
  const make = async (body: object, more: object = {}): Promise<Parent> => {
    const { id: group } = await steps.create({ runs: [{ ref: 'parent', image: 'i', ...body }], ...more });
    return { run: (await steps.members(group)).get('parent').id, group };
  };
  const claim = async (id: string): Promise<void> => {
    await runs.heartbeat();
    await runs.claimUntil(id);
  };
  /** The last worker that has it is lost. */
  const loseWorker = async (id: string, attempt: number): Promise<void> => {
    await claim(id);
    const lost = { type: 'reclaim', workerId: 'w', attempt, lastHeartbeatAt: null } as const;
    await service.app.get(RunJournal, { strict: false }).change(id, lost);
  };
  /** Made by a schedule that cancels the earlier one. */
  const scheduled = (body: object): Pick<Way, 'make' | 'take'> => {
    const id = `replacing-${(made += 1)}`;
    const trigger = () => send('POST', `/schedules/${id}/trigger`);
    return {
      make: async () => {
        await send('PUT', `/schedules/${id}`, { cron: ['0 0 1 1 *'], overlap: 'cancel_previous', ...body });
        const { run_id: run, group_id: group } = await trigger();
        return run ? { run, group: null } : { run: (await steps.members(group)).get('parent').id, group };
      },
      take: trigger,
    };
  };
  const limited = (onLimit: string): { concurrency: object } => ({
    concurrency: { key: `limited-${(made += 1)}`, limit: 1, on_limit: onLimit },
  });
  const [replaced, skipped] = [limited('cancel_oldest'), limited('skip')];
  /** A run that waits for another one. */
  const waiting = (body: (run: string) => object, end: TerminalState): Way => {
    let grandparent = '';
    return {
      end: 'CANCELLED',
      make: async () => {
        grandparent = (await runs.create()).id;
        return make({ depends_on: [{ run: grandparent }], ...body(grandparent) });
      },
      take: () => steps.end(grandparent, end),
    };
  };

  const ways: Readonly<Record<string, Way>> = {
    'its worker reports COMPLETED': { end: 'COMPLETED', take: ({ run }) => steps.end(run) },
    'its worker reports FAILED': { end: 'FAILED', take: ({ run }) => steps.end(run, 'FAILED') },
    'the last of its attempts fails, and no earlier one': {
      end: 'FAILED',
      body: { retry_policy: { max_attempts: 2 } },
      take: async ({ run }, stillWait) => {
        await steps.end(run, 'FAILED');
        await stillWait();
        await steps.end(run, 'FAILED');
      },
    },
    'it completes after an attempt that failed': {
      end: 'COMPLETED',
      body: { retry_policy: { max_attempts: 2, backoff_s: 1000 } },
      take: async ({ run }, stillWait) => {
        await steps.end(run, 'FAILED');
        await stillWait();
        await steps.end(run);
      },
    },
    'it fails as its policy does not retry': {
      end: 'FAILED',
      body: { retry_policy: { max_attempts: 3, retry_on: ['oom'] } },
      take: ({ run }) => steps.end(run, 'FAILED'),
    },
    'the infrastructure fails once too often': {
      end: 'FAILED',
      take: async ({ run }, stillWait) => {
        for (const isLast of [false, true]) {
          await patch(run, 'RUNNING');
          await runs.event(run, 'FAILED', { error_message: 'x', cause: 'infrastructure' });
          if (!isLast) await stillWait();
        }
      },
    },
    'it loses one worker too many': {
      end: 'FAILED',
      body: { priority: HIGHEST },
      take: async ({ run }, stillWait) => {
        await loseWorker(run, 1);
        await stillWait();
        await loseWorker(run, 2);
      },
    },
    'its worker reports CANCELLED': {
      end: 'CANCELLED',
      take: async ({ run }) => {
        await patch(run, 'RUNNING');
        await runs.event(run, 'CANCELLED');
      },
    },
    'a user cancels it': { end: 'CANCELLED', take: ({ run }) => steps.end(run, 'CANCELLED') },
    'an admin has it killed': {
      end: 'CANCELLED',
      take: ({ run }) => send('POST', `/runs/${run}/cancel`, { kill: true }),
    },
    'a user cancels several': {
      end: 'CANCELLED',
      take: ({ run }) => send('POST', '/runs/batch/cancel', { ids: [run] }),
    },
    'a bulk operation cancels it': {
      end: 'CANCELLED',
      body: { image: 'filtered' },
      take: () => send('POST', '/bulk-operations', { action: 'cancel', filter: { image: 'filtered' } }),
    },
    ...Object.fromEntries(
      TERMINAL_STATES.flatMap((end): [string, Way][] => [
        [`an admin sets it to ${end}`, { end, take: ({ run }) => patch(run, end) }],
        [
          `an admin sets it to ${end} while it executes`,
          {
            end,
            body: { priority: HIGHEST },
            take: async ({ run }) => {
              await claim(run);
              await patch(run, end);
            },
          },
        ],
      ]),
    ),
    'no worker takes it in time': {
      end: 'FAILED',
      body: { timeouts: { start_within_s: HOUR_S }, retry_policy: { max_attempts: 2 } },
      take: ({ run }) => pass(run),
    },
    'its worker does not start it in time': {
      end: 'FAILED',
      body: { timeouts: { start_within_s: HOUR_S }, priority: HIGHEST },
      take: async ({ run }) => {
        await claim(run);
        await pass(run);
      },
    },
    'the last of its attempts takes too long, and no earlier one': {
      end: 'FAILED',
      body: { timeouts: { attempt_s: HOUR_S }, retry_policy: { max_attempts: 2 } },
      take: async ({ run }, stillWait) => {
        await patch(run, 'RUNNING');
        await pass(run);
        await untilAttempt(run, 2);
        await stillWait();
        await patch(run, 'RUNNING');
        await pass(run);
      },
    },
    'a newer run of its concurrency key takes its place': {
      end: 'CANCELLED',
      body: replaced,
      take: () => runs.create(replaced),
    },
    'its concurrency key has no place for it': {
      end: 'CANCELLED',
      make: async () => {
        await runs.create(skipped);
        return make(skipped);
      },
    },
    'a user cancels its group': {
      end: 'CANCELLED',
      take: ({ group }) => send('POST', `/groups/${group}/cancel`),
    },
    'another member of its group fails': {
      end: 'CANCELLED',
      groupEnd: 'FAILED',
      make: async () => {
        const other = { ref: 'other', image: 'i' };
        const { id: group } = await steps.create({
          on_failure: 'cancel_group',
          runs: [{ ref: 'parent', image: 'i' }, other],
        });
        return { run: (await steps.members(group)).get('parent').id, group };
      },
      take: async ({ group }) => steps.end((await steps.members(group ?? '')).get('other').id, 'FAILED'),
    },
    'too many members of its array have failed': {
      end: 'CANCELLED',
      groupEnd: 'FAILED',
      make: async () => {
        const { id: group } = await steps.create({ array: { size: 2, run: { image: 'i' } }, max_failed: 1 });
        await steps.untilGroup(group, ({ counts }) => counts.uncreated === 0);
        return { run: (await steps.members(group)).get(1).id, group };
      },
      take: async ({ group }) => steps.end((await steps.members(group ?? '')).get(0).id, 'FAILED'),
    },
    'what it waits for itself fails': waiting(() => ({}), 'FAILED'),
    'an output that it needs is not there': waiting(
      (run) => ({ inputs: { x: { $from: { run, output: '/x' } } } }),
      'COMPLETED',
    ),
    'the next run of its schedule takes its place': {
      end: 'CANCELLED',
      ...scheduled({ run: { image: 'i' } }),
    },
    'the next group of its schedule takes the place of its own': {
      end: 'CANCELLED',
      ...scheduled({ group: { runs: [{ ref: 'parent', image: 'i' }] } }),
    },
  };

  /** A child for each need, of the run and of its group. */
  const createChildren = async ({ run, group }: Parent, { end, groupEnd = end }: Way): Promise<Child[]> => {
    const wanted = NEEDS.flatMap((need) => [
      { on: { run }, need, end },
      ...(group === null ? [] : [{ on: { group }, need, end: groupEnd }]),
    ]);
    const results = await bulk.create(
      wanted.map(({ on, need: when }) => ({ image: 'child', depends_on: [{ ...on, when }] })),
    );
    return wanted.map((child, n) => ({ ...child, id: results[n].run.id }));
  };
  const assertCancelled = async ({ id, on, need, end }: Child): Promise<void> => {
    const run = await steps.untilRun(id, ({ state }) => state === 'CANCELLED');
    const [parent, payload] =
      'run' in on ? [`Run ${on.run}`, { run_id: on.run }] : [`Group ${on.group}`, { group_id: on.group }];
    const needed = need === 'failed' ? 'FAILED' : 'COMPLETED';
    const reason = `${parent} ended as ${end}, and this run needs that it has ${needed}`;
    assert.deepEqual(run.events.at(-1).payload, { cause: 'dependency', ...payload });
    const { cause, cancel_reason: why } = run.execution_summary;
    assert.deepEqual([cause, why], ['dependency', reason]);
  };
  /** Claims until none is left of those that must be claimable. @returns all that it got */
  const claimAll = async (wanted: readonly Child[]): Promise<string[]> => {
    await runs.heartbeat('claimer');
    const claimed: string[] = [];
    await until(
      async () => claimed.push(...(await bulk.claim('claimer', 100)).map(({ id }) => id)),
      () => wanted.every(({ id }) => claimed.includes(id)),
    );
    return claimed;
  };

  for (const [title, way] of Object.entries(ways)) {
    test(`are claimable or cancelled as they need it, made before the end or after it, when ${title}`, async () => {
      const parent = way.make ? await way.make() : await make(way.body ?? {});
      const before = await createChildren(parent, way);
      const stillWait = async (): Promise<void> => {
        for (const { id } of before) assert.equal(await steps.reason(id), 'dependency');
      };
      if (way.take) {
        await stillWait();
        await way.take(parent, stillWait);
      }
      await steps.untilRun(parent.run, ({ state }) => state === way.end);
      if (parent.group) await steps.untilGroup(parent.group, ({ state }) => state !== 'open');
      const children = [...before, ...(await createChildren(parent, way))];
      const met = children.filter(isMet);
      for (const child of children) if (!met.includes(child)) await assertCancelled(child);
      const claimed = await claimAll(met);
      assert.deepEqual(
        children.filter(({ id }) => claimed.includes(id)),
        met,
      );
    });
  }
});
