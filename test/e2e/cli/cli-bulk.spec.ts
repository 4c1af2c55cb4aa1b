import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { senderTo } from '../../support/app/test-app.js';
import { Cli, type CliEnd } from '../../support/programs/cli.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';

describe('bulk operations on the command line', () => {
  let service: ServiceProcess;
  let steps: RunSteps;
  let cli: Cli;

  beforeAll(async () => {
    service = await startService();
    steps = new RunSteps(senderTo(service.url, service.adminKey));
    cli = await Cli.make({ SERVICE_URL: service.url, SERVICE_API_KEY: service.adminKey });
  });
  afterAll(async () => {
    assert.equal(await service.stop(), 0, service.output);
  });

  const ok = async (...args: readonly string[]): Promise<CliEnd> => {
    const end = await cli.run(...args);
    assert.equal(end.code, 0, end.output);
    return end;
  };

  test('show first what matches, and change it when the number is given', async () => {
    const labels = { team: 'vision' };
    const [one, two] = [await steps.create({ labels }), await steps.create({ labels })];
    const neither = await cli.run('bulk', 'cancel', '-l', 'team=vision');
    assert.deepEqual([neither.code, neither.stdout], [2, '']);
    assert.match(neither.stderr, /give --dry-run to see which runs match, then --expect with their number/);
    const shown = await ok('bulk', 'cancel', '-l', 'team=vision', '--dry-run');
    assert.match(shown.stdout, new RegExp(`^ID [^]*${two.id}[^]*${one.id}`));
    assert.equal(shown.stderr, '2 runs match; nothing was changed\n');
    const other = await cli.run('bulk', 'cancel', '-l', 'team=vision', '--expect', '1');
    assert.deepEqual([other.code, other.stderr], [1, 'longshore: The filter matches 2 runs, not 1\n']);
    const all = await cli.run('bulk', 'cancel', '--dry-run');
    assert.match(all.stderr, /filter has no condition: all must be true/);

    const done = await ok('bulk', 'cancel', '-l', 'team=vision', '--expect', '2', '--reason', 'wrong input');
    assert.equal(done.stdout, 'done: 2 of 2 runs cancelled\n');
    assert.match(done.stderr, /^2 runs match; operation [0-9a-f-]{36} goes on if this command ends\n$/);
    for (const { id } of [one, two]) {
      assert.equal((await steps.get(id)).execution_summary.cancel_reason, 'wrong input');
    }
  });

  test('end with 1 and the reasons when runs are refused', async () => {
    const { id } = await steps.inState('COMPLETED', { image: 'ended' });
    const end = await cli.run('bulk', 'cancel', '--image', 'ended', '--expect', '1');
    assert.deepEqual([end.code, end.stdout], [1, 'done: 0 of 1 run cancelled, 1 refused\n']);
    assert.match(end.stderr, new RegExp(`${id} not cancelled: Run is already in terminal state COMPLETED\n`));
  });

  test('set labels and priorities, print JSON, and are shown and stopped by their id', async () => {
    const { id } = await steps.create({ image: 'sorted', labels: { draft: 'yes' } });
    await ok('bulk', 'label', 'stage=done', 'draft-', '--image', 'sorted', '--expect', '1');
    await ok('bulk', 'priority', '5', '--image', 'sorted', '--expect', '1');
    const run = await steps.get(id);
    assert.deepEqual([run.labels, run.priority], [{ stage: 'done' }, 5]);
    const started = await ok('bulk', 'retry', '--image', 'no-such', '--expect', '0', '--detach');
    const operation = started.stdout.trim();
    for (const command of ['show', 'stop']) {
      assert.equal((await ok('bulk', command, operation)).stdout, 'done: 0 of 0 runs retried\n');
    }
    const json = JSON.parse((await ok('bulk', 'show', operation, '--json')).stdout);
    assert.deepEqual([json.id, json.state, json.matched], [operation, 'done', 0]);
    const preview = JSON.parse(
      (await ok('bulk', 'retry', '--image', 'sorted', '--dry-run', '--json')).stdout,
    );
    assert.deepEqual([preview.matched, preview.runs[0].id], [1, id]);
  });
});
