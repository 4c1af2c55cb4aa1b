import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { assertInvalid } from '../../support/http/answer-shapes.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { ScheduleSteps } from '../../support/schedules/schedule-steps.js';

describe('schedules', () => {
  const service = useTestApp();
  const steps = new ScheduleSteps(service);
  beforeAll(() => steps.stopJobs());
  const put = (body: object): ReturnType<typeof service.send> =>
    service.send('PUT', '/schedules/refused', { body });
  const preview = (body: object): ReturnType<typeof service.send> =>
    service.send('POST', '/schedules/preview', { body });
  const RUN = { image: 'image' };

  test('are created and replaced as a whole, with their defaults, and each change is in the audit log', async () => {
    const created = await steps.put('whole', {
      cron: ['@daily'],
      timezone: 'Europe/Berlin',
      description: 'd',
    });
    const { createdAt, updatedAt, next, created_by: by, updated_by: last, ...shown } = created;
    assert.deepEqual([createdAt, by, next.length], [updatedAt, last, 10]);
    assert.deepEqual(shown, {
      id: 'whole',
      description: 'd',
      group: null,
      labels: {},
      run: RUN,
      cron: ['@daily'],
      every_s: null,
      offset_s: 0,
      timezone: 'Europe/Berlin',
      starts_at: null,
      ends_at: null,
      jitter_s: 0,
      overlap: 'skip',
      catch_up: { policy: 'latest', window_s: 86_400 },
      pause_after_failures: null,
      paused: false,
      paused_note: null,
      paused_at: null,
      paused_by: null,
      last: [],
      counts: { created: 0, skipped_overlap: 0, skipped_missed: 0, failed: 0 },
      newest_run_state: null,
      applied: null,
    });
    const replaced = await steps.put('whole', { cron: ['0 4 * * *'], overlap: 'allow' }, 200);
    assert.deepEqual(
      [replaced.createdAt, replaced.description, replaced.overlap],
      [createdAt, null, 'allow'],
    );
    assert.equal((await service.send('DELETE', '/schedules/whole')).status, 204);
    assert.equal((await service.send('DELETE', '/schedules/whole')).status, 404);
    const { body } = await service.send('GET', '/audit?limit=3');
    assert.deepEqual(
      body.map(({ action, subject }: { action: string; subject: string }) => [action, subject]),
      ['schedule.delete', 'schedule.replace', 'schedule.create'].map((action) => [action, 'whole']),
    );
  });

  test('are listed by id in pages, and found by a part of it', async () => {
    for (const id of ['list-a', 'list-b', 'list-c']) await steps.put(id);
    const first = await service.send('GET', '/schedules?search=LIST-&limit=2');
    assert.deepEqual(
      first.body.map(({ id }: { id: string }) => id),
      ['list-a', 'list-b'],
    );
    const query = /<(\?.*)>/.exec(first.headers.get('link') ?? '')?.[1] ?? '';
    const second = await service.send('GET', `/schedules${query}`);
    assert.deepEqual(
      [second.body.length, second.body[0].id, second.headers.get('link')],
      [1, 'list-c', null],
    );
  });

  test('keep what apply has stored with them when they are replaced without it, as definitions do', async () => {
    const applied = { set: 'prod', given: ['run'], fields: { run: 'a digest' } };
    const schedule = { every_s: 60, run: RUN };
    const definition = { id: 'applied', version: '1', image: 'image' };
    for (const [method, path, body] of [
      ['PUT', '/schedules/applied', schedule],
      ['POST', '/definitions', definition],
    ] as const) {
      await service.send(method, path, { body: { ...body, applied } });
      for (const query of ['?dry_run=true', '']) {
        const replaced = await service.send(method, `${path}${query}`, { body });
        assert.deepEqual([replaced.status, replaced.body.applied], [200, applied], path);
      }
      const other = await service.send(method, path, {
        body: { ...body, applied: { ...applied, set: 'x' } },
      });
      assert.equal(other.body.applied.set, 'x');
      const wrong = await service.send(method, path, {
        body: { ...body, applied: { set: 'x', given: [1] } },
      });
      assertInvalid(wrong, [
        'applied.given must be a list of at most 100 items, each a string of 1 to 64 characters',
        'applied.fields is required',
      ]);
    }
    const run = await service.send('POST', '/definitions/applied/runs', { body: {} });
    assert.equal('applied' in run.body, false);
  });

  test('are checked and shown by dry_run=true, and neither stored nor changed', async () => {
    const dry = (body: object): ReturnType<typeof service.send> =>
      service.send('PUT', '/schedules/dry?dry_run=true', { body });
    const shown = await dry({ cron: ['@daily'], run: RUN });
    assert.deepEqual([shown.status, shown.body.overlap, shown.body.next.length], [200, 'skip', 10]);
    assertInvalid(await dry({ cron: ['@daily'], run: {} }), ['run: image is required']);
    assert.equal((await service.send('GET', '/schedules/dry')).status, 404);
    const before = await steps.put('dry');
    assert.equal((await dry({ every_s: 60, run: RUN })).body.every_s, 60);
    assert.deepEqual(await steps.get('dry'), before);
  });

  test('keep a pause when they are replaced, and go on from now when it ends', async () => {
    await steps.put('kept');
    const paused = await service.send('POST', '/schedules/kept/pause', { body: { note: 'moving' } });
    assert.deepEqual([paused.body.paused, paused.body.paused_note, paused.body.next], [true, 'moving', []]);
    const replaced = await steps.put('kept', { overlap: 'allow' }, 200);
    assert.deepEqual([replaced.paused, replaced.paused_note], [true, 'moving']);
    await steps.job.runOnce();
    const resumed = (await service.send('POST', '/schedules/kept/resume')).body;
    assert.deepEqual([resumed.paused, resumed.paused_note, resumed.last], [false, null, []]);
    assert.equal(new Date(resumed.next[0]).getTime(), steps.lastHour(-1).getTime());
  });

  test('keep what is due when something else than their times is changed, and begin from now when these are', async () => {
    await steps.put('due');
    await steps.setNext('due', steps.lastHour());
    await steps.put('due', { overlap: 'allow' }, 200);
    await steps.job.runOnce();
    assert.equal((await steps.fires('due')).length, 1);
    await steps.setNext('due', steps.lastHour());
    await steps.put('due', { every_s: 7200 }, 200);
    await steps.job.runOnce();
    assert.deepEqual(
      (await steps.fires('due')).map(({ outcome }) => outcome),
      ['skipped_missed', 'created'],
    );
  });

  test('have no times outside of their period', async () => {
    const { next } = await steps.put('period', {
      starts_at: steps.lastHour(-48).toISOString(),
      ends_at: steps.lastHour(-49).toISOString(),
    });
    assert.deepEqual(
      next.map((time: string) => new Date(time).getTime()),
      [steps.lastHour(-48).getTime(), steps.lastHour(-49).getTime()],
    );
  });

  test('preview their next times, and say where the clock was changed', async () => {
    const spring = await preview({
      cron: ['30 2 * * *'],
      timezone: 'Europe/Berlin',
      from: '2026-03-28T12:00:00Z',
      count: 2,
    });
    assert.deepEqual(spring.body.times, [
      { at: '2026-03-29T03:30:00+02:00', note: 'skipped_hour' },
      { at: '2026-03-30T02:30:00+02:00' },
    ]);
    const autumn = await preview({
      cron: ['30 2 * * *'],
      timezone: 'Europe/Berlin',
      from: '2026-10-24T12:00:00Z',
      count: 2,
    });
    assert.deepEqual(autumn.body.times, [
      { at: '2026-10-25T02:30:00+02:00', note: 'repeated_hour' },
      { at: '2026-10-26T02:30:00+01:00' },
    ]);
    assert.equal((await preview({ every_s: 600 })).body.times.length, 10);
    assertInvalid(await preview({}), ['cron, every_s: exactly one of the two is required']);
  });

  for (const [what, body, problem] of [
    ['both kinds of times', { cron: ['@daily'], every_s: 60, run: RUN }, /exactly one of the two/],
    ['an expression that never fires', { cron: ['0 0 30 2 *'], run: RUN }, /cron\.0/],
    ['six fields', { cron: ['0 0 0 * * *'], run: RUN }, /cron\.0/],
    [
      'an unknown zone',
      { cron: ['@daily'], timezone: 'Europe/Atlantis', run: RUN },
      /timezone: Europe\/Atlantis/,
    ],
    ['a zone beside every_s', { every_s: 60, timezone: 'UTC', run: RUN }, /timezone/],
    [
      'a period that ends before it starts',
      { every_s: 60, run: RUN, starts_at: '2030-01-01T00:00:00Z', ends_at: '2029-01-01T00:00:00Z' },
      /ends_at must not be before/,
    ],
    ['a run without an image', { every_s: 60, run: {} }, /^run: image/],
    ['an unknown field of the run', { every_s: 60, run: { ...RUN, imag: 'x' } }, /^run: .*imag/],
    [
      'a start of the run',
      { every_s: 60, run: { ...RUN, start_at: '2030-01-01T00:00:00Z' } },
      /^run: start_at must be absent/,
    ],
    ['an unknown definition', { every_s: 60, run: { definition: 'none' } }, /^run: .*'none' not found/],
    [
      'a reference to a group',
      { every_s: 60, run: { ...RUN, args: ['${group.id}'] } },
      /^run: args\[0\]: \$\{group\.id\}: unknown/,
    ],
    [
      'a reference to an input that is not given',
      { every_s: 60, run: { ...RUN, env: { A: '${inputs.day}' } } },
      /^run: env\.A: \$\{inputs\.day\}: no such input/,
    ],
    [
      'a reference in code',
      { every_s: 60, run: { ...RUN, command: ['sh', '-c', 'echo ${schedule.time}'] } },
      /would become code/,
    ],
    [
      'a name in inputs that the run has not',
      { every_s: 60, run: { ...RUN, inputs: { a: '${run.name}' } } },
      /^run: inputs\.a: the run does not have \$\{run\.name\}/,
    ],
    ['an unknown field', { every_s: 60, run: RUN, evry_s: 1 }, /evry_s/],
  ] as const) {
    test(`are refused with ${what}, and nothing is stored`, async () => {
      const answer = await put(body);
      assert.equal(answer.status, 400, answer.text);
      assert.match((answer.body.errors ?? [answer.text]).join('\n'), problem);
      assert.equal((await service.send('GET', '/schedules/refused')).status, 404);
    });
  }

  test('are refused with an id that is none', async () => {
    assert.equal(
      (await service.send('PUT', '/schedules/a%20b', { body: { every_s: 60, run: RUN } })).status,
      400,
    );
  });
});
