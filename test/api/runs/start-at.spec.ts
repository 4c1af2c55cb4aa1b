import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const DAY_MS = 86_400_000;
const START_RULE =
  'start_at must be UNIX seconds, an ISO 8601 date and time with a zone (2030-01-31T09:00:00Z), or a span such as 90s, 15m, 2h or 3d, at most 366 days ahead';

describe('start_at', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  beforeAll(async () => {
    await service.send('POST', '/definitions', { body: { id: 'def', version: '1', image: 'i' } });
  });

  const runOf = (body: object): Promise<TestAnswer> =>
    service.send('POST', '/definitions/def/runs', { body });

  for (const [sent, shown] of [
    ['2020-01-31T09:00:00Z', '2020-01-31T09:00:00.000Z'],
    ['2020-01-31T09:00:00.5+02:00', '2020-01-31T07:00:00.500Z'],
    ['2020-01-31T09:00:00.123000000Z', '2020-01-31T09:00:00.123Z'],
    ['2020-01-31T09:00:00.123000001Z', '2020-01-31T09:00:00.124Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
    [1580461200, '2020-01-31T09:00:00.000Z'],
    [1580461200.25, '2020-01-31T09:00:00.250Z'],
  ] as const) {
    test(`shows ${sent} as ${shown}, in a run and in a run of a definition`, async () => {
      const run = await steps.create({ start_at: sent });
      assert.equal(run.start_at, shown);
      assert.deepEqual(await steps.get(run.id), run);
      const ofDefinition = bodyOf(await runOf({ start_at: sent }), 'OpRun', 201);
      assert.equal(ofDefinition.start_at, shown);
    });
  }

  test('is at most 366 days ahead', async () => {
    const latest = at(366 * DAY_MS - 60_000);
    assert.equal((await steps.create({ start_at: latest })).start_at, latest);
    const later = { image: 'i', start_at: at(366 * DAY_MS + 60_000) };
    assertInvalid(await service.send('POST', '/runs', { body: later }), [START_RULE]);
  });

  test('may be a span from the time of the service on; the same request with its key makes one run', async () => {
    const body = { image: 'i', start_at: '10m' };
    const headers = { 'Idempotency-Key': 'span' };
    const before = Date.now();
    const made = bodyOf(await service.send('POST', '/runs', { body, headers }), 'OpRun', 201);
    const after = Date.now();
    const start = Date.parse(made.start_at ?? '');
    assert.ok(start >= before + 600_000 && start <= after + 600_000, made.start_at ?? 'null');
    const again = bodyOf(await service.send('POST', '/runs', { body, headers }), 'OpRun', 201);
    assert.deepEqual([again.id, again.start_at], [made.id, made.start_at]);
    const ofDefinition = bodyOf(await runOf({ start_at: '0s' }), 'OpRun', 201);
    assert.ok(Date.parse(ofDefinition.start_at ?? '') >= before);
  });

  for (const time of [
    'tomorrow',
    '2020-01-31',
    '2020-01-31T09:00:00',
    '2020-02-30T09:00:00Z',
    '20270601',
    '367d',
    '1w',
    '-10m',
    '0000-12-31T00:00:00Z',
    '9999-12-31T23:59:59Z',
    '',
    '1580461200',
    1e300,
  ]) {
    test(`refuses ${JSON.stringify(time)}`, async () => {
      const body = { start_at: time };
      assertInvalid(await service.send('POST', '/runs', { body: { image: 'i', ...body } }), [START_RULE]);
      assertInvalid(await runOf(body), [START_RULE]);
    });
  }

  test('is null unless given, and nothing that a definition has', async () => {
    assert.deepEqual(
      [(await steps.create()).start_at, (await steps.create({ start_at: null })).start_at],
      [null, null],
    );
    const body = { id: 'other', version: '1', image: 'i', start_at: at(0) };
    assertInvalid(await service.send('POST', '/definitions', { body }), ['start_at is not a known field']);
  });
});

/** A time from now. */
function at(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}
