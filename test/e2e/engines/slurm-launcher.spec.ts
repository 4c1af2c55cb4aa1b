import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { makeImageFolder } from '../../support/images/image-folders.js';
import { launch, until } from '../../support/service-process.js';
import { NODE_CPUS, skipWithoutSlurm } from '../../support/workers/slurm-cluster.js';
import { SlurmLaunchers } from '../../support/workers/slurm-launchers.js';
import { untilFile, WORKER_MAIN } from '../../support/workers/worker-process.js';
import { skipFor } from '../../support/skip.js';

const skip = skipWithoutSlurm();
const WHOLE_NODE = { constraints: { cpu: NODE_CPUS } };

describe('runs on a real Slurm', skipFor(skip), () => {
  let scene: SlurmLaunchers;

  beforeAll(async () => {
    scene = await SlurmLaunchers.start(randomBytes(32).toString('base64'));
  });
  afterEach(() => scene.clear());
  afterAll(() => scene?.stop());

  /** Waits until the program of the image has started so often. */
  async function untilStarts(image: string, count: number): Promise<void> {
    await until(async () => (await scene.images.startsOf(image)).length >= count, `${image} has started`);
  }

  /** Types of the timeline, reports of waiting left out. */
  async function timeline(id: string): Promise<string[]> {
    return (await scene.runs.timeline(id)).filter((entry) => !entry.endsWith('SUBMITTED'));
  }

  test('give outputs, log and exit code back, and pass on variables and secrets', async () => {
    const { images, runs, send } = scene;
    await images.add(
      'works',
      'echo "$GREETING $TOKEN $1"; cat "$SERVICE_INPUT_PATH" >"$SERVICE_OUTPUT_PATH"',
    );
    await images.add('fails', 'echo last words; exit 7');
    await scene.launch('launcher');
    const stored = await send('PUT', '/secrets/token', { body: { kind: 'opaque', value: 'secret-value' } });
    assert.equal(stored.status, 201, stored.text);
    const given = {
      inputs: { n: 1 },
      env: { GREETING: "it's me" },
      secrets: { TOKEN: 'token' },
      args: ['a b'],
    };
    const [works, fails] = [await runs.create('works', given), await runs.create('fails')];
    const done = await runs.untilState(works, 'COMPLETED', 'FAILED');
    assert.deepEqual([done.state, done.outputs], ['COMPLETED', { n: 1 }], JSON.stringify(done));
    assert.deepEqual(await runs.timeline(works), ['1 SUBMITTED', '1 STARTED', '1 COMPLETED']);
    await until(
      async () => (await send('GET', `/runs/${works}/logs`)).text.includes("it's me"),
      'the log is there',
    );
    const { text } = await send('GET', `/runs/${works}/logs`);
    assert.ok(text.includes('*** a b') && !text.includes('secret-value'), text);
    const failed = await runs.untilState(fails, 'FAILED');
    const { cause, exit_code: exitCode, error_message: message } = failed.execution_summary;
    assert.deepEqual([cause, exitCode], ['exit', 7]);
    assert.match(message, /last words/);
  });

  test('get SIGTERM when they are cancelled', async () => {
    const { images, runs, send } = scene;
    const seen = images.gate('term');
    await images.add(
      'cancelled',
      `trap 'echo TERM >>"${seen.path}"; exit 1' TERM; while :; do sleep 0.1; done`,
    );
    await scene.launch('launcher');
    const id = await runs.create('cancelled');
    await runs.untilState(id, 'RUNNING');
    await send('POST', `/runs/${id}/cancel`);
    await scene.cluster.untilNoJobs();
    assert.equal(readFileSync(seen.path, 'utf8'), 'TERM\n', 'once');
    assert.deepEqual(await timeline(id), ['1 STARTED', '1 CANCELLED']);
  });

  test('say why they wait, in the words of Slurm', async () => {
    const { images, runs, send } = scene;
    const gate = images.gate('queue');
    await images.add('waits', untilFile(gate.path));
    await scene.launch('launcher');
    const holders = [await runs.create('waits', WHOLE_NODE), await runs.create('waits', WHOLE_NODE)];
    for (const id of holders) await runs.untilState(id, 'RUNNING');
    const waiting = await runs.create('waits', WHOLE_NODE);
    const engine = async () => (await send('GET', `/runs/${waiting}/explain`)).body.holder?.engine;
    await until(
      async () => /^(?:Resources|Priority)$/.test((await engine())?.reason ?? ''),
      'the reason shows',
    );
    assert.equal((await engine()).name, 'slurm');
    await gate.open();
    for (const id of [...holders, waiting]) await runs.untilState(id, 'COMPLETED');
  });

  test('survive a launcher that is killed: the next process adopts the job, and the program runs once', async () => {
    const { images, runs } = scene;
    const gate = images.gate('adopted');
    await images.add('adopted', `echo '{"type":"PROGRESS","msg":10}'; ${untilFile(gate.path)}; exit 3`);
    const killed = await scene.launch('launcher');
    const id = await runs.create('adopted');
    await runs.until(id, 'has progressed', ({ progress }) => progress === 10);
    killed.signal('SIGKILL');
    await killed.exited;
    await gate.open();
    await scene.launch('launcher');
    await runs.untilState(id, 'FAILED');
    assert.deepEqual(await timeline(id), ['1 STARTED', '1 PROGRESS', '1 FAILED']);
    assert.equal((await images.startsOf('adopted')).length, 1);
  });

  test('find files whose secrets are masked, also after the launcher was killed before the job began', async () => {
    const { cluster, runs, send } = scene;
    const images = join(cluster.folder, 'images');
    makeImageFolder(images, 'filed', 'cat "$TEXT" "$KEY"; exit 3');
    const settings = {
      SERVICE_WORKER_SLURM_CONTAINER: 'runc',
      SERVICE_WORKER_SLURM_IMAGES: images,
    };
    const killed = await scene.launch('launcher', settings);
    const stored = await send('PUT', '/secrets/in-a-file', { body: { kind: 'opaque', value: 'of-a-file' } });
    assert.equal(stored.status, 201, stored.text);
    const endless = { command: ['/bin/sh', '-c', 'while :; do sleep 0.1; done'], ...WHOLE_NODE };
    const holders = [await runs.create('filed', endless), await runs.create('filed', endless)];
    for (const id of holders) await runs.untilState(id, 'RUNNING');
    const files = {
      '/etc/job/text': { content: 'a text\n', env: 'TEXT' },
      '/run/key': { secret: 'in-a-file', env: 'KEY', mode: '0400' },
    };
    const id = await runs.create('filed', { files, ...WHOLE_NODE });
    await runs.until(id, 'is submitted', ({ events }) =>
      events.some(({ type }: { type: string }) => type === 'SUBMITTED'),
    );
    killed.signal('SIGKILL');
    await killed.exited;
    await scene.launch('launcher', settings);
    for (const holder of holders) await send('POST', `/runs/${holder}/cancel`);
    const { execution_summary: summary } = await runs.untilState(id, 'FAILED', 'COMPLETED');
    assert.deepEqual([summary.cause, summary.exit_code], ['exit', 3]);
    assert.deepEqual(await timeline(id), ['1 STARTED', '1 FAILED']);
    await until(async () => (await send('GET', `/runs/${id}/logs`)).text.includes('***'), 'the log is there');
    const { text } = await send('GET', `/runs/${id}/logs`);
    assert.ok(text.includes('a text') && !text.includes('of-a-file'), text);
    assert.ok(!summary.error_message.includes('of-a-file'), summary.error_message);
  });

  test('are not taken by a launcher of root whose tool would make them root on the nodes', async () => {
    const { folder, env } = scene.cluster;
    const launcher = await launch(WORKER_MAIN, {
      env: {
        ...env,
        SERVICE_URL: scene.service.url,
        SERVICE_API_KEY: 'none',
        SERVICE_WORKER_ID: 'root',
        SERVICE_WORKER_RUNTIME: 'slurm',
        SERVICE_WORKER_SLURM_DIR: join(folder, 'shared'),
        SERVICE_WORKER_SLURM_CONTAINER: 'charliecloud',
        SERVICE_WORKER_SLURM_IMAGES: join(folder, 'images'),
      },
    });
    const { code } = await launcher.exited;
    assert.equal(code, 2, launcher.output);
    assert.match(launcher.output, /must not be charliecloud for a launcher of root \(uid 0\)/);
  });

  test('start once with two launchers of one id at the same time', async () => {
    const { images, runs } = scene;
    await images.add('twins', 'sleep 1');
    await Promise.all([scene.launch('twin'), scene.launch('twin')]);
    const ids = await Promise.all(Array.from({ length: 8 }, () => runs.create('twins')));
    for (const id of ids) {
      const run = await runs.untilState(id, 'COMPLETED', 'FAILED');
      assert.deepEqual([run.state, run.current_attempt], ['COMPLETED', 1], JSON.stringify(run));
    }
    assert.equal((await images.startsOf('twins')).length, ids.length);
  });

  test('are taken over from a launcher that is gone: the old job ends before the new attempt starts', async () => {
    const { images, runs } = scene;
    const record = images.gate('order').path;
    const script = `[ ! -e '${record}' ] && { trap 'echo old ended >>${record}; exit 1' TERM; echo old >>${record}; while :; do sleep 0.1; done; }; echo new >>${record}`;
    await images.add('order', script);
    const gone = await scene.launch('gone');
    const id = await runs.create('order');
    await runs.untilState(id, 'RUNNING');
    gone.signal('SIGKILL');
    await gone.exited;
    await scene.launch('other');
    await runs.untilState(id, 'COMPLETED');
    assert.equal(readFileSync(record, 'utf8'), 'old\nold ended\nnew\n');
    assert.deepEqual(await timeline(id), ['1 STARTED', '1 RECLAIMED', '2 STARTED', '2 COMPLETED']);
  });

  test('go to nodes with the feature that a tag stands for', async () => {
    const { images, runs } = scene;
    await images.add('where', 'echo "{\\"node\\":\\"$SLURMD_NODENAME\\"}" >"$SERVICE_OUTPUT_PATH"');
    await scene.launch('launcher', { SERVICE_WORKER_SLURM_FEATURES: 'rare=special' });
    const ids = await Promise.all([1, 2, 3].map(() => runs.create('where', { selector: ['rare'] })));
    for (const id of ids) {
      const { state, outputs } = await runs.untilState(id, 'COMPLETED', 'FAILED');
      assert.deepEqual([state, outputs], ['COMPLETED', { node: 'two' }]);
    }
  });

  test('are 50 at once, each executed once', async () => {
    const { images, runs, send } = scene;
    await images.add('many', 'exit 0');
    await scene.launch('launcher', { SERVICE_WORKER_MAX_PENDING: '50' });
    const ids = await Promise.all(Array.from({ length: 50 }, () => runs.create('many')));
    for (const id of ids) await runs.untilState(id, 'COMPLETED', 'FAILED');
    for (const id of ids) assert.deepEqual(await timeline(id), ['1 STARTED', '1 COMPLETED']);
    assert.equal((await images.startsOf('many')).length, 50);
    const [worker] = (await send('GET', '/workers')).body.filter(
      ({ id }: { id: string }) => id === 'launcher',
    );
    assert.equal(worker.engine.name, 'slurm');
  });

  test('survive a controller that is killed and started again', async () => {
    const { images, runs, cluster } = scene;
    const gate = images.gate('controller');
    await images.add('controller', `${untilFile(gate.path)}; exit 5`);
    await scene.launch('launcher');
    const id = await runs.create('controller');
    await runs.untilState(id, 'RUNNING');
    await cluster.untilSaved();
    await cluster.killController();
    const waiting = await runs.create('controller');
    await runs.untilState(waiting, 'ASSIGNED');
    await cluster.startController();
    await gate.open();
    for (const run of [id, waiting]) {
      const { execution_summary: summary } = await runs.untilState(run, 'FAILED');
      assert.deepEqual([summary.cause, summary.exit_code], ['exit', 5]);
      assert.deepEqual(await timeline(run), ['1 STARTED', '1 FAILED']);
    }
    assert.equal((await images.startsOf('controller')).length, 2);
  });

  test('whose node is lost are executed again without a failed attempt of the user', async () => {
    const { images, runs, cluster } = scene;
    const gate = images.gate('node');
    await images.add('node', untilFile(gate.path));
    await scene.launch('launcher', { SERVICE_WORKER_SLURM_FEATURES: 'rare=special' });
    const id = await runs.create('node', { selector: ['rare'], retry_policy: { max_attempts: 1 } });
    await untilStarts('node', 1);
    await runs.untilState(id, 'RUNNING');
    await cluster.loseNode('two');
    await runs.until(id, 'has another attempt', ({ current_attempt: attempt }) => attempt === 2);
    await cluster.startNode('two');
    await gate.open();
    await runs.untilState(id, 'COMPLETED');
    const { events } = await runs.get(id);
    const failed = events.find(({ type }: { type: string }) => type === 'FAILED');
    assert.equal(failed.payload.cause, 'infrastructure');
    assert.match(failed.payload.error_message, /NODE_FAIL/);
    assert.equal((await images.startsOf('node')).length, 2);
  });
});
