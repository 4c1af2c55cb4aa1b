import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { MetricsPage } from '../../../src/common/metrics/metrics.controller.js';
import { RunTimeoutsJob } from '../../../src/runs/run-timeouts.job.js';
import { RawWorker } from '../../support/workers/raw-worker.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { Scrape } from '../../support/monitoring/scrape.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';

/** Counters of what happens to runs. */
const COUNTED = [
  'longshore_runs_created_total',
  'longshore_run_transitions_total',
  'longshore_events_total',
  'longshore_run_retries_total',
  'longshore_run_timers_total',
  'longshore_refused_events_total',
  'longshore_runs_claimed_total',
  'longshore_claims_total',
  'longshore_run_queue_seconds_count',
  'longshore_claim_work_seconds_count',
  'longshore_feed_entries_total',
];

describe('GET /metrics', () => {
  let statements: string[];
  let service: TestApp;
  let runs: RunSteps;
  let worker: RawWorker;

  beforeAll(async () => {
    statements = logStatements();
    service = await startTestApp();
    runs = new RunSteps(service.send);
    worker = await RawWorker.start(service.send, 'w', 60_000);
  });
  afterAll(async () => {
    worker.end();
    await service.close();
  });

  /** What the work adds to the counters. */
  const counting = async (work: () => Promise<unknown>): Promise<Record<string, number>> => {
    const earlier = await Scrape.of(service.send);
    await work();
    return (await Scrape.of(service.send)).since(earlier, COUNTED);
  };

  test('counts a run that is claimed, started and completed, once each', async () => {
    const grown = await counting(async () => {
      await runs.create({ event_delivery: { topic: 't' } });
      const [id = ''] = await worker.claim();
      assert.equal((await worker.report(id, 1, 'STARTED', { worker_id: 'w' })).status, 200);
      assert.equal((await worker.report(id, 1, 'PROGRESS')).status, 200);
      assert.equal((await worker.report(id, 1, 'BEFORE_LUNCH')).status, 200);
      assert.equal((await worker.report(id, 1, 'COMPLETED')).status, 200);
    });
    assert.deepEqual(grown, {
      longshore_runs_created_total: 1,
      'longshore_run_transitions_total{from="PENDING",to="ASSIGNED"}': 1,
      'longshore_run_transitions_total{from="ASSIGNED",to="RUNNING"}': 1,
      'longshore_run_transitions_total{from="RUNNING",to="COMPLETED"}': 1,
      'longshore_events_total{type="STARTED"}': 1,
      'longshore_events_total{type="PROGRESS"}': 1,
      'longshore_events_total{type="custom"}': 1,
      'longshore_events_total{type="COMPLETED"}': 1,
      longshore_runs_claimed_total: 1,
      'longshore_claims_total{outcome="served"}': 1,
      longshore_run_queue_seconds_count: 1,
      longshore_claim_work_seconds_count: 1,
      longshore_feed_entries_total: 4,
    });
  });

  test('counts groups that end, and what becomes of those that wait for an end', async () => {
    const groups = new GroupSteps(service);
    const earlier = await Scrape.of(service.send);
    const group = await groups.create({
      runs: [
        { ref: 'a', image: 'i' },
        { ref: 'b', image: 'i', depends_on: [{ ref: 'a' }] },
        { ref: 'c', image: 'i', depends_on: [{ ref: 'a', when: 'failed' }] },
      ],
    });
    const members = await groups.members(group.id);
    await groups.end(members.get('a').id, 'FAILED');
    await groups.untilReady(members.get('c').id);
    await groups.end(members.get('c').id);
    await groups.untilGroup(group.id, ({ state }) => state === 'failed');
    const names = ['longshore_groups_ended_total', 'longshore_dependencies_resolved_total'];
    assert.deepEqual((await Scrape.of(service.send)).since(earlier, names), {
      'longshore_groups_ended_total{state="failed"}': 1,
      'longshore_dependencies_resolved_total{outcome="met"}': 1,
      'longshore_dependencies_resolved_total{outcome="broken"}': 1,
    });
  });

  test('counts failures that are retried, requested retries and time budgets that ran out, each as what it is', async () => {
    const grown = await counting(async () => {
      const { id } = await runs.create({ retry_policy: { max_attempts: 2 } });
      await worker.claim();
      await worker.report(id, 1, 'FAILED');
      assert.equal((await service.send('POST', `/runs/${id}/retry`)).status, 200);
      assert.equal((await service.send('POST', `/runs/${id}/cancel`)).status, 200);
    });
    assert.deepEqual(grown, {
      longshore_runs_created_total: 1,
      'longshore_run_transitions_total{from="PENDING",to="ASSIGNED"}': 1,
      'longshore_run_transitions_total{from="ASSIGNED",to="PENDING"}': 1,
      'longshore_run_transitions_total{from="PENDING",to="CANCELLED"}': 1,
      'longshore_events_total{type="FAILED"}': 1,
      'longshore_events_total{type="RETRIED"}': 2,
      'longshore_events_total{type="CANCELLED"}': 1,
      'longshore_run_retries_total{reason="failure"}': 1,
      'longshore_run_retries_total{reason="request"}': 1,
      longshore_runs_claimed_total: 1,
      'longshore_claims_total{outcome="served"}': 1,
      longshore_run_queue_seconds_count: 1,
      longshore_claim_work_seconds_count: 1,
    });
    const late = await counting(async () => {
      await runs.create({ timeouts: { start_within_s: 1 } });
      await service.app.get(RunTimeoutsJob, { strict: false }).runOnce(new Date(Date.now() + 60_000));
    });
    // The job looked a minute ahead, while the machine goes by the database's time: nothing is due yet.
    assert.deepEqual(late, { longshore_runs_created_total: 1 });
    const { id } = (await service.send('GET', '/runs?limit=1')).body.data[0];
    const elapsed = await counting(async () => {
      const { manager } = service.dataSource;
      await manager.query(`update runs set queued_at = queued_at - interval '1 minute' where id = $1`, [id]);
      await manager.query(`update run_timers set due_at = now() - interval '1 second' where run_id = $1`, [
        id,
      ]);
      await service.app.get(RunTimeoutsJob, { strict: false }).runOnce(new Date());
      await runs.get(id);
    });
    assert.equal(elapsed['longshore_run_timers_total{kind="start_timeout"}'], 1);
    assert.equal(elapsed['longshore_run_transitions_total{from="PENDING",to="FAILED"}'], 1);
  });

  test('counts refused reports by reason, and nothing of what they wanted', async () => {
    const grown = await counting(async () => {
      const { id } = await runs.create();
      await worker.claim();
      assert.equal((await runs.report(id, { type: 'NOTE', msg: '' }, { worker: 'other' })).status, 409);
      assert.equal((await worker.report(id, 7, 'COMPLETED')).status, 409);
      await worker.report(id, 1, 'COMPLETED');
      assert.equal((await worker.report(id, 1, 'COMPLETED')).status, 400);
      assert.equal((await service.send('POST', `/runs/${id}/cancel`)).status, 400);
      const unknown = id.replace(/^.{8}/, '00000000');
      assert.equal((await worker.report(unknown, 1, 'COMPLETED')).status, 404);
    });
    assert.deepEqual(grown, {
      longshore_runs_created_total: 1,
      'longshore_run_transitions_total{from="PENDING",to="ASSIGNED"}': 1,
      'longshore_run_transitions_total{from="ASSIGNED",to="COMPLETED"}': 1,
      'longshore_events_total{type="COMPLETED"}': 1,
      'longshore_refused_events_total{reason="other-worker",reporter="worker"}': 1,
      'longshore_refused_events_total{reason="stale-attempt",reporter="worker"}': 1,
      'longshore_refused_events_total{reason="locked",reporter="worker"}': 1,
      'longshore_refused_events_total{reason="locked",reporter="client"}': 1,
      'longshore_refused_events_total{reason="not-found",reporter="worker"}': 1,
      longshore_runs_claimed_total: 1,
      'longshore_claims_total{outcome="served"}': 1,
      longshore_run_queue_seconds_count: 1,
      longshore_claim_work_seconds_count: 1,
    });
  });

  test('tells empty claims from those of workers that may have none, and leaves waits out of the time that claims take', async () => {
    const earlier = await Scrape.of(service.send);
    const grown = await counting(async () => {
      assert.deepEqual(await worker.claim(), []);
      assert.deepEqual(await worker.claim(1), []);
      assert.equal((await service.send('POST', '/workers/nobody/claim')).status, 200);
    });
    assert.deepEqual(grown, {
      'longshore_claims_total{outcome="empty"}': 2,
      'longshore_claims_total{outcome="refused"}': 1,
      longshore_claim_work_seconds_count: 3,
    });
    const { longshore_claim_work_seconds_sum: work = 0 } = (await Scrape.of(service.send)).since(earlier, [
      'longshore_claim_work_seconds_sum',
    ]);
    assert.ok(work < 0.9, `the second of waiting is in the ${work} s`);
  });

  test('shows the runs by state, the age of the queue and the workers as they are', async () => {
    const oldest = await runs.create({ priority: -1 });
    await runs.create();
    await RawWorker.start(service.send, 'drains', 60_000).then((other) => other.end());
    await service.send('POST', '/workers/drains/drain');
    const scrape = await Scrape.of(service.send);
    const { runs: states } = (await service.send('GET', '/overview')).body;
    for (const [state, count] of Object.entries(states)) {
      assert.equal(scrape.value('longshore_runs', { state }), count, state);
    }
    assert.equal(scrape.value('longshore_workers', { state: 'active' }), 1);
    assert.equal(scrape.value('longshore_workers', { state: 'draining' }), 1);
    assert.equal(scrape.value('longshore_workers', { state: 'stale' }), 0);
    await service.dataSource.query(
      `update runs set created_at = created_at - interval '1 hour' where id = $1`,
      [oldest.id],
    );
    const age = (await Scrape.of(service.send)).value('longshore_oldest_pending_run_age_seconds') ?? 0;
    assert.ok(age >= 3600 && age < 3660, `${age} s`);
  });

  test('costs two statements while no run is pending, else a third and one reading of the demand at most, however many scrapers come at once', async () => {
    const page = service.app.get(MetricsPage, { strict: false });
    const scrapeByTwenty = async (): Promise<string[]> => {
      statements.length = 0;
      const texts = await Promise.all(Array.from({ length: 20 }, () => page.text()));
      for (const name of ['longshore_runs', 'longshore_pending_runs'])
        assert.ok(
          texts.every((text) => new Scrape(text).find(name).length > 0),
          name,
        );
      // The reaper and the jobs of schedules and webhooks may begin meanwhile; their gauges cost a statement each.
      return statements.filter(
        (sql) =>
          !/"isOverdue"|from schedules|from webhooks|from groups|dependency_ends|waits_for = 0/.test(sql),
      );
    };
    const busy = await scrapeByTwenty();
    statements.length = 0;
    await service.send('GET', '/capacity');
    const ofDemand = busy.some((sql) => sql.includes('waiting as materialized')) ? statements.length : 0;
    assert.equal(busy.length, 3 + ofDemand, busy.join('\n'));
    for (const { id } of (await service.send('GET', '/runs?state=PENDING&limit=100')).body.data)
      await service.send('POST', `/runs/${id}/cancel`);
    // The age of the queue is not read while it is empty.
    const idle = await scrapeByTwenty();
    assert.equal(idle.length, 2, idle.join('\n'));
  });
});
