import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { sendNotice } from '../../../src/database/notices/commit-notice.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { LOCAL_RECEIVERS, startReceiver, type Receiver } from '../../support/webhooks/receiver.js';
import { received, WebhookSteps } from '../../support/webhooks/webhook-steps.js';

describe('messages to webhooks of schedules and groups', () => {
  const service = useTestApp({
    env: { ...LOCAL_RECEIVERS, SERVICE_PUBLIC_URL: 'https://longshore.example.com/' },
  });
  const webhooks = new WebhookSteps(service.send);
  const groups = new GroupSteps(service);
  const { runs } = groups;
  let receiver: Receiver;
  let paths = 0;

  beforeAll(async () => {
    receiver = await startReceiver();
  });
  afterAll(() => receiver.close());

  /** A webhook with a path of its own. */
  const subscribe = async (body: Readonly<Record<string, unknown>>) => {
    const path = `/hook/${(paths += 1)}`;
    const { id } = await webhooks.create({ url: new URL(path, receiver.url).href, ...body });
    return { id, received: (count: number) => received(receiver, count, path) };
  };

  test('tell of times of schedules for which no run was made', async () => {
    const hook = await subscribe({ events: ['schedule.skipped'], where: { schedule: ['a.b c'] } });
    const { dataSource } = service;
    await dataSource.query(
      `insert into schedules (id, run, every_s, timezone, overlap, catch_up, window_s, created_at, updated_at, failures_since, times_since)
       select id, '{}', 60, 'UTC', 'skip', 'none', 0, now(), now(), now(), now() from unnest(array['a.b c', 'other']) as id`,
    );
    await dataSource.query(
      `insert into schedule_fires (schedule_id, nominal_at, kind, outcome, reason, until_at, fired_at, count)
       select id, '2026-01-01T00:00:00Z', 'schedule', 'skipped_missed', 'the service was down', '2026-01-01T00:02:00Z', now(), 3
         from unnest(array['other', 'a.b c']) as id`,
    );
    await sendNotice(dataSource.manager, { webhooks: true });
    const [message] = await hook.received(1);
    assert.match(String(message?.id), /^schedule-skipped_a%2Eb%20c_1767225600000_[0-9]+$/);
    assert.deepEqual(message?.body.data, {
      schedule: 'a.b c',
      time: '2026-01-01T00:00:00.000Z',
      until: '2026-01-01T00:02:00.000Z',
      count: 3,
      outcome: 'skipped_missed',
      reason: 'the service was down',
    });
    await dataSource.query('truncate schedules cascade');
  });

  test('tell of each end of a group, also of one without members, and of the group of a run', async () => {
    const where = { label: ['team=vision'] };
    const hook = await subscribe({ events: ['group.ended', 'run.failed'], where });
    const runsOf = [{ ref: 'a', image: 'i' }];
    const other = await groups.create({ runs: runsOf });
    const group = await groups.create({ name: 'train', labels: { team: 'vision' }, runs: runsOf });
    const member = (await groups.members(group.id)).get('a');
    await groups.end((await groups.members(other.id)).get('a').id);
    await groups.end(member.id, 'FAILED');
    const failed = await hook.received(2);
    assert.deepEqual(failed.find(({ body }) => body.type === 'run.failed')?.body.data.group, {
      id: group.id,
      ref: 'a',
      index: null,
    });
    const { ended_at: endedAt } = await groups.get(group.id);
    const ended = failed.find(({ body }) => body.type === 'group.ended');
    assert.deepEqual(ended?.body, {
      type: 'group.ended',
      timestamp: endedAt,
      data: {
        group: group.id,
        name: 'train',
        labels: { team: 'vision' },
        state: 'failed',
        size: 1,
        counts: { uncreated: 0, pending: 0, assigned: 0, running: 0, completed: 0, failed: 1, cancelled: 0 },
        schedule: null,
        url: `https://longshore.example.com/ui/groups/${group.id}`,
      },
    });
    await groups.retry(group.id);
    await groups.end(member.id);
    const array = await groups.create({
      labels: { team: 'vision' },
      array: { size: 2, run: { image: 'i' } },
      depends_on: [{ run: (await runs.create()).id }],
    });
    await service.send('POST', `/groups/${array.id}/cancel`);
    const all = (await hook.received(4)).filter(({ body }) => body.type === 'group.ended');
    assert.deepEqual(
      all.map(({ id, body }) => [id, body.data.state]),
      [
        [`group-ended_${group.id}_1`, 'failed'],
        [`group-ended_${group.id}_2`, 'completed'],
        [`group-ended_${array.id}_1`, 'cancelled'],
      ],
    );
    await webhooks.post(hook.id, 'replay', { from: '1h', until: new Date().toISOString() });
    const again = (await hook.received(7)).slice(4).map(({ id }) => id);
    assert.ok(again.includes(`group-ended_${group.id}_2`));
  });
});
