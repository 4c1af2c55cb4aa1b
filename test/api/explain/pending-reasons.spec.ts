import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { PENDING_REASON_NAMES } from '../../../src/runs/pending-reason.js';
import { until } from '../../support/app/passing-time.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { Scrape } from '../../support/monitoring/scrape.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { RunSteps } from '../../support/runs/run-steps.js';

const LARGE = { cpu_cores: 8, ram_mb: 1_000, gpus: [{ id: 0, vram_mb: 1_000, tags: ['a100'] }] };
const IN_AN_HOUR = new Date(Date.now() + 3_600_000).toISOString();

for (const scheduler of ['direct', 'fit']) {
  describe(`the reason why a run is pending, with the strategy ${scheduler}`, () => {
    const service = useTestApp({ env: { SERVICE_SCHEDULER: scheduler, SERVICE_WORKER_TIMEOUT: '3600' } });
    const steps = new RunSteps(service.send);
    const expected = new Map<string, string>();

    const count = (name: string): number => [...expected.values()].filter((one) => one === name).length;
    const explain = async (id: string) =>
      bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
    const list = async (): Promise<[string, string][]> =>
      (await service.send('GET', '/runs?state=PENDING&limit=100')).body.data.map(
        ({ id, reason }: Readonly<Record<string, string>>) => [id, reason],
      );

    /** Creates a pending run that must wait for the reason. */
    async function create(reason: string, body: Readonly<Record<string, unknown>> = {}): Promise<string> {
      const { id } = await steps.create(body);
      expected.set(id, reason);
      return id;
    }

    /** Compares all that tells reasons with what is expected. */
    async function check(): Promise<void> {
      for (const [id, reason] of expected) {
        const explained = await explain(id);
        assert.equal(explained.reason, reason, explained.summary);
      }
      // The workers, and the counts of the overview, may be as old as the pause between two readings.
      const lists = await until(list, (found) => isSame(new Map(found), expected));
      assert.equal(lists.length, expected.size);
      const counts = new Map(PENDING_REASON_NAMES.map((name) => [name as string, count(name)]));
      const { demand } = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport');
      assert.deepEqual(new Map(Object.entries(demand.reasons)), counts);
      const overview = async () => (await service.send('GET', '/overview')).body;
      await until(overview, ({ reasons }) => isSame(new Map(Object.entries(reasons)), counts));
      await until(
        () => Scrape.of(service.send),
        (scrape) =>
          PENDING_REASON_NAMES.every(
            (reason) => scrape.value('longshore_pending_runs', { reason }) === count(reason),
          ),
      );
    }

    beforeAll(async () => {
      await steps.heartbeat('w', { resources: LARGE });
      const { id: failed } = await steps.running({ retry_policy: { max_attempts: 2, backoff_s: 3600 } });
      await steps.event(failed, 'FAILED');
      expected.set(failed, 'back_off');
      const concurrency = { key: 'k', limit: 1 };
      const { id: holder } = await steps.create({ concurrency });
      const set = await service.send('PATCH', `/runs/${holder}`, { body: { state: 'RUNNING' } });
      assert.equal(set.status, 200, set.text);
      await create('concurrency', { concurrency });
      await create('start_at', { start_at: IN_AN_HOUR });
      await create('dependency', { depends_on: [{ run: holder }] });
      await create('dependency', { depends_on: [{ run: holder }], start_at: IN_AN_HOUR });
      // More than one lacks: the first of the list is told.
      await create('concurrency', { concurrency, selector: ['eu'] });
      assert.equal((await service.send('DELETE', '/workers/w')).status, 204);
    });

    test('is no_worker while no worker is active, beside what the run itself waits for', async () => {
      await create('no_worker');
      await create('no_worker', { selector: ['eu'], env: { A: 'b' } });
      await check();
    });

    test('is what no worker has, be it draining or not: capabilities, tags, size', async () => {
      await steps.heartbeat('w', { resources: LARGE, tags: ['eu'] });
      const [plain = '', restricted = ''] = [...expected].flatMap(([id, reason]) =>
        reason === 'no_worker' ? [id] : [],
      );
      expected.set(plain, 'queue').set(restricted, 'capability');
      await create('capability', { env: { A: 'b' } });
      await create('capability', { env: { A: 'b' }, selector: ['us'], constraints: { cpu: 99 } });
      await create('selector', { selector: ['us'] });
      await create('selector', { selector: ['us'], constraints: { cpu: 99 } });
      await create('resources', { constraints: { cpu: 99 } });
      await create('resources', { selector: ['eu'], constraints: { ram_mb: 1_001 } });
      await create('queue', { selector: ['eu'], constraints: { cpu: 8 } });
      await check();
    });

    test('is no_worker while all that could execute the run are draining or do not claim', async () => {
      for (const [id, reason] of expected) if (reason === 'queue') expected.set(id, 'no_worker');
      await service.send('POST', '/workers/w/drain');
      await check();
      await service.send('DELETE', '/workers/w/drain');
      await steps.heartbeat('w', {
        resources: LARGE,
        tags: ['eu'],
        not_claiming: [{ reason: 'disk_full', message: '' }],
      });
      await check();
      // Smaller than what some need: it can take the others.
      await steps.heartbeat('small', { tags: ['eu'], resources: { cpu_cores: 1, ram_mb: 1, gpus: [] } });
      for (const [id, reason] of expected) {
        if (reason === 'no_worker' && (await steps.get(id)).constraints.cpu < 8) expected.set(id, 'queue');
      }
      await check();
    });

    test('is absent of runs that are not pending', async () => {
      const { data } = (await service.send('GET', '/runs?state=RUNNING')).body;
      assert.equal(data.length, 1);
      assert.ok(!('reason' in data[0]));
      assert.equal((await explain(data[0].id)).reason, null);
    });
  });
}

describe('an explanation of a run that depends on others', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  const explain = async (id: string) =>
    bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');

  test('names the runs and groups that have not ended, or says that inputs are read', async () => {
    const [ended, open] = [await steps.create(), await steps.running()];
    const group = await new GroupSteps(service).create({ runs: [{ ref: 'a', image: 'i' }] });
    await service.send('POST', `/runs/${ended.id}/cancel`);
    const { id } = await steps.create({
      depends_on: [{ run: ended.id, when: 'ended' }, { run: open.id, when: 'failed' }, { group: group.id }],
      inputs: { x: { $from: { group: group.id, output: '/x' } } },
    });
    const waiting = await explain(id);
    assert.deepEqual(waiting.waiting_for, [
      { run: open.id, state: 'RUNNING', when: 'failed' },
      { group: group.id, state: 'open', when: 'completed' },
    ]);
    const names = `run ${open.id} (RUNNING), group ${group.id} (open)`;
    assert.equal(waiting.summary, `Waits for 2 of 3 runs and groups: ${names}.`);
    assert.deepEqual([waiting.queue.position, waiting.queue.not_before], [null, null]);
    await execute(service.dataSource, `update dependencies set outcome = 'met' where child_run = $1`, [id]);
    const reading = await explain(id);
    assert.deepEqual([reading.reason, reading.waiting_for], ['dependency', []]);
    assert.match(reading.summary, /its inputs are being read from outputs/);
    await service.send('POST', `/runs/${id}/cancel`);
  });
});

describe('a list of runs', () => {
  const statements = logStatements();
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  /** The fewest of three requests: a scheduled job of the service may add its own. */
  const counted = async (): Promise<number> => {
    const counts: number[] = [];
    while (counts.length < 3) {
      statements.length = 0;
      const { body } = await service.send('GET', '/runs?limit=100&include_events=false');
      assert.ok(body.data.length > 0);
      counts.push(statements.filter((sql) => /\b(?:runs|queue|lanes)\b/.test(sql)).length);
    }
    return Math.min(...counts);
  };

  test('reads reasons with one statement for all runs with concurrency keys, and with none for others', async () => {
    await steps.running();
    const before = await counted();
    await steps.create();
    await steps.create({ selector: ['eu'] });
    assert.equal(await counted(), before);
    for (let n = 0; n < 5; n += 1) await steps.create({ concurrency: { key: `k-${n % 2}`, limit: 1 } });
    assert.equal(await counted(), before + 1);
  });
});

function isSame<T>(found: ReadonlyMap<string, T>, wanted: ReadonlyMap<string, T>): boolean {
  return found.size === wanted.size && [...wanted].every(([key, value]) => found.get(key) === value);
}
