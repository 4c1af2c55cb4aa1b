import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, it } from 'vitest';
import { assertNothingLost, RunLoad } from '../../support/runs/run-load.js';
import {
  databaseUrlOf,
  linesWith,
  logOf,
  readyPids,
  startCluster,
  untilGone,
  untilReady,
} from '../../support/programs/server-processes.js';
import {
  COMPILED,
  makeDataDir,
  runService,
  startService,
  until,
  type ServiceProcess,
} from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';

const ENDED = 'a server process ended; it is replaced';
const ROUNDS = 3;
const ANSWERS_A_ROUND = 400;

/** A request on a connection of its own, so that any process may get it. */
async function createRun({ url, adminKey }: ServiceProcess): Promise<void> {
  const { status, text } = await senderTo(url, adminKey)('POST', '/runs', {
    body: { image: 'counted' },
    headers: { Connection: 'close' },
  });
  assert.equal(status, 201, text);
}

async function moreAnswers(load: RunLoad, answers = ANSWERS_A_ROUND): Promise<void> {
  const goal = load.acknowledged + answers;
  await until(() => load.acknowledged >= goal, `${answers} more answers`);
}

/** The one of the two that serves longest: connections that are kept alive have gathered there. */
function oldestPid(service: ServiceProcess): number {
  const ended = new Set(linesWith(service, ENDED).map((line) => line['serverProcess']));
  return readyPids(service).find((pid) => !ended.has(pid)) ?? assert.fail('no server process serves');
}

function newestPid(service: ServiceProcess): number {
  return readyPids(service).at(-1) ?? assert.fail('no server process is ready');
}

async function metric({ url, adminKey }: ServiceProcess, name: string): Promise<number> {
  const { status, text } = await senderTo(url, adminKey)('GET', '/metrics', {
    headers: { Connection: 'close' },
  });
  assert.equal(status, 200, text);
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1));
}

describe('a service of two server processes', () => {
  it('answers from both of them on one port, and says once where', async () => {
    const service = await startCluster();
    const pids = readyPids(service);
    assert.equal(new Set([service.pid, ...pids]).size, 3);
    assert.equal(logOf(service).filter(({ msg }) => msg.startsWith('listening on')).length, 1);
    for (const pid of pids) {
      process.kill(pid, 'SIGSTOP');
      // A connection may be given to the one that is stopped, and is answered when that goes on.
      const answers = Array.from({ length: 4 }, () => createRun(service));
      await Promise.any(answers);
      process.kill(pid, 'SIGCONT');
      await Promise.all(answers);
    }
    assert.equal(await service.stop(), 0);
    await untilGone(pids);
  });

  it('loses and doubles nothing when one is killed under load, goes on and replaces it', async (context) => {
    const service = await startCluster();
    const load = new RunLoad(service.url, service.adminKey);
    try {
      for (let round = 0; round < ROUNDS; round += 1) {
        await moreAnswers(load);
        const before = load.unanswered.size;
        const killedAt = Date.now();
        process.kill(oldestPid(service), 'SIGKILL');
        await moreAnswers(load, 50);
        const goesOn = Date.now() - killedAt;
        assert.equal(
          readyPids(service).length,
          2 + round,
          'nobody answered before the replacement was ready',
        );
        await untilReady(service, 3 + round);
        await context.annotate(
          `replaced after ${Date.now() - killedAt} ms, 50 more answers after ${goesOn} ms, ` +
            `${load.unanswered.size - before} requests without an answer`,
        );
      }
      await moreAnswers(load);
    } finally {
      await load.stop();
    }
    assert.ok(load.unanswered.size > 0, 'no request was under way when a process was killed');
    await assertNothingLost(load, await databaseUrlOf(service));
    await context.annotate(
      `${load.acknowledged} answers acknowledged, ${load.unanswered.size} requests failed`,
    );
    assert.ok(logOf(service).length > 0);
    assert.equal(await service.stop(), 0);
  });

  it('leaves nobody waiting whose connection was just handed to the one that is killed', async () => {
    const service = await startCluster();
    const pid = newestPid(service);
    process.kill(pid, 'SIGSTOP');
    let ended = 0;
    const clients = Array.from({ length: 6 }, () => createRun(service).finally(() => (ended += 1)));
    const outcomes = Promise.allSettled(clients);
    await until(() => ended >= 3, 'the other one does not answer');
    process.kill(pid, 'SIGKILL');
    await until(() => ended === clients.length, 'a client waits for ever');
    const answered = (await outcomes).filter(({ status }) => status === 'fulfilled');
    assert.ok(answered.length < clients.length, 'no connection was handed to the one that was stopped');
    assert.equal(await service.stop(), 0);
  });

  it('comes back on the same port when both are killed at once', async () => {
    const service = await startCluster();
    const killed = readyPids(service);
    for (const pid of killed) process.kill(pid, 'SIGKILL');
    await untilGone(killed);
    // Turned away, not served by a stranger, until one of them is back.
    await untilReady(service, 4);
    await createRun(service);
    assert.equal(await metric(service, 'longshore_server_processes'), 2);
    assert.equal(await service.stop(), 0);
  });

  it('waits longer and longer before it replaces one that dies again and again', async () => {
    const service = await startCluster();
    const pauses: number[] = [];
    for (let deaths = 1; deaths <= 4; deaths += 1) {
      process.kill(newestPid(service), 'SIGKILL');
      await untilReady(service, 2 + deaths);
      pauses.push(Number(linesWith(service, ENDED).at(-1)?.['pauseMs']));
    }
    const [first, second = 0, third = 0, fourth = 0] = pauses;
    assert.equal(first, 0);
    assert.ok(second >= 250 && second <= 500, String(second));
    assert.ok(third >= 500 && third <= 1000, String(third));
    assert.ok(fourth >= 1000 && fourth <= 2000, String(fourth));
    assert.equal(await metric(service, 'longshore_server_process_replacements_total'), 4);
    assert.equal(await service.stop(), 0);
  });

  it('adds up the metrics of all, and no total goes back when one is killed or stopped', async () => {
    const service = await startCluster();
    const total = 'longshore_journal_group_size_sum';
    for (let n = 0; n < 20; n += 1) await createRun(service);
    for (let n = 0; n < 4; n += 1) assert.equal(await metric(service, total), 20);
    process.kill(newestPid(service), 'SIGKILL');
    await untilReady(service, 3);
    for (let n = 0; n < 4; n += 1) assert.equal(await metric(service, total), 20);
    for (let n = 0; n < 10; n += 1) await createRun(service);
    // Nobody has asked since: what it counted is told by its last word.
    process.kill(newestPid(service), 'SIGTERM');
    await untilReady(service, 4);
    for (let n = 0; n < 4; n += 1) assert.equal(await metric(service, total), 30);
    assert.equal(await service.stop(), 0);
  });

  it('answers a scrape with the counters that a process told before it hung', async () => {
    const service = await startCluster();
    const total = 'longshore_journal_group_size_sum';
    for (let n = 0; n < 10; n += 1) await createRun(service);
    assert.equal(await metric(service, total), 10);
    const pid = newestPid(service);
    process.kill(pid, 'SIGSTOP');
    const answers = Array.from({ length: 4 }, () => metric(service, total));
    assert.equal(await Promise.any(answers), 10);
    process.kill(pid, 'SIGCONT');
    assert.deepEqual(await Promise.all(answers), [10, 10, 10, 10]);
    assert.equal(await service.stop(), 0);
  });
});

describe('a service of two server processes whose primary is killed', () => {
  it('leaves no process behind, and a new start has everything that was acknowledged', async (context) => {
    const dataDir = await makeDataDir();
    const first = await startCluster({ dataDir });
    const pids = readyPids(first);
    const load = new RunLoad(first.url, first.adminKey);
    await moreAnswers(load);
    const killedAt = Date.now();
    process.kill(first.pid, 'SIGKILL');
    await untilGone(pids);
    await context.annotate(`the processes were gone after ${Date.now() - killedAt} ms`);
    const second = await startCluster({ dataDir });
    load.redirect(second.url);
    await moreAnswers(load);
    await load.stop();
    await assertNothingLost(load, await databaseUrlOf(second));
    assert.equal(await second.stop(), 0);
  });
});

describe('the start of a service of several server processes', () => {
  it('refuses to keep the pool of workers in the memory of one', async () => {
    const { code, stdout, stderr } = await runService({
      args: ['--workers', '2'],
      env: { SERVICE_WORKER_POOL: 'memory' },
    });
    assert.equal(code, 2);
    assert.equal(stdout, '');
    assert.match(
      stderr,
      /^SERVICE_WORKER_POOL must be .*shared with several server processes, got "memory"\n$/,
    );
  });

  it('ends with the exit code and the one line of a process that cannot start', async () => {
    const cwd = await makeDataDir();
    await writeFile(
      join(cwd, 'picky.mjs'),
      `import cluster from 'node:cluster';
      if (cluster.isWorker) throw new Error('not in a server process');
      export class Picky { configure() {} }`,
    );
    const { code, stderr } = await runService({
      cwd,
      args: ['--workers', '3'],
      env: { SERVICE_EXTENSIONS: 'picky.mjs' },
    });
    assert.equal(code, 2);
    assert.equal(stderr, "SERVICE_EXTENSIONS: 'picky.mjs' cannot be loaded: not in a server process\n");
  });

  it('tells why the system could not start a process that has no descriptors left, and goes on', async () => {
    const program = `
      import cluster from 'node:cluster';
      import { openSync } from 'node:fs';
      import { ServerProcess } from '${join(COMPILED, 'src/bootstrap/cluster/server-process.js')}';
      cluster.setupPrimary({ exec: 'unused.mjs' });
      try { for (;;) openSync('/dev/null'); } catch {}
      const { problems } = await new ServerProcess('postgres://unused').ended;
      setImmediate(() => console.log(problems.join()));`;
    const { stdout } = await promisify(execFile)('sh', [
      '-c',
      'ulimit -n 64 && exec "$0" --input-type=module -e "$1"',
      process.execPath,
      program,
    ]);
    assert.match(stdout, /^no server process can be started: .*EMFILE\n$/);
  });

  it('refuses a port that is taken before it starts anything', async () => {
    const other = await startService();
    const { code, stdout, stderr } = await runService({
      args: ['--workers', '2', '--port', new URL(other.url).port],
    });
    assert.equal(code, 1);
    assert.equal(stdout, '');
    assert.match(stderr, /^cannot listen on .*already.*\n$/);
    assert.equal(await other.stop(), 0);
  });
});
