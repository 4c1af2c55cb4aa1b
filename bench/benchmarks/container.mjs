import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { join } from 'node:path';
import { runnerImport } from 'vite';
import { goalLine, ratio, rowOf } from '../lib/pages/figures.mjs';
import { bodyOf, sender } from '../lib/load/http.mjs';
import { stoppedAtTheEnd } from '../lib/servers/leftovers.mjs';
import { ROOT } from '../lib/root.mjs';
import { inTurn, withOpen } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/servers/service.mjs';
import { quantile } from '../lib/pages/stats.mjs';

/** Containers of one round. */
const RUNS = 10;

const LABELS = {
  docker: 'docker run --rm',
  engine: 'engine API: create, start, wait, remove',
  agent: 'run through the service and its agent',
  file: 'the same run with a file',
};

export const title = 'A container that exits at once';
export const about =
  'From the request that creates a run until COMPLETED is recorded, through the service and its agent with a Docker ' +
  'engine: claim, pull of the newest image, container, report. Beside it `docker run --rm` of the same image with the ' +
  'same limits, and the bare calls of the engine API, one container after the other, in turns of ten. The engine and a ' +
  'registry are started for this, with files of their own; where that is impossible nothing is measured.';
export const figures = {
  p50: { title: 'p50', unit: 'ms' },
  max: { title: 'longest', unit: 'ms' },
};

/** @param rows as measured */
export function goals(rows) {
  if (rows.length === 0) return [goalLine('over `docker run`, p50', Number.NaN, { atMost: 60 }, ' ms')];
  const [agent, docker] = [rowOf(rows, LABELS.agent), rowOf(rows, LABELS.docker)];
  const over = agent.rounds.map(({ p50 }, n) => p50 - docker.rounds[n].p50);
  const line = goalLine('over `docker run`, p50', quantile(over, 0.5), { atMost: 60 }, ' ms');
  return [line, goalLine('times `docker run`, p50', ratio(agent, docker, 'p50'), { atMost: 2 })];
}

/** One row for each way; none without an engine. */
export async function measure() {
  const { module } = await runnerImport(join(ROOT, 'test/support/images/docker-engine.ts'), {
    logLevel: 'error',
  });
  const started = await module.startTestEngine();
  if (started.skip !== false) {
    process.stderr.write(`skipped: ${started.skip}\n`);
    return [];
  }
  const { engine } = started;
  const stopEngine = stoppedAtTheEnd(() => engine.stop());
  try {
    const image = await engine.publishScript('exit-at-once', 'exit 0');
    await cli(engine.host, ['pull', '-q', image]);
    return await withOpen(async (keep) => {
      const service = await keep(startService());
      await keep(startAgent(service.url, engine.host));
      const { send, close } = sender(service.url, KEY, 4);
      await keep(Promise.resolve({ stop: async () => close() }));
      // The agent creates the network of its containers with the first one.
      await byAgent(service.url, send, image);
      return inTurn([
        subject(LABELS.docker, () => cli(engine.host, ['run', '--rm', ...LIMITS, image])),
        subject(LABELS.engine, () => byEngine(engine.docker, image)),
        subject(LABELS.agent, () => byAgent(service.url, send, image)),
        subject(LABELS.file, () => byAgent(service.url, send, image, WITH_PLACES)),
      ]);
    });
  } finally {
    await stopEngine();
  }
}

/** Options for which the agent looks into the image. */
const WITH_PLACES = { files: { '/etc/bench/settings.json': { content: '{}' } } };

/** As the agent has them. */
const LIMITS = [
  '--network=longshore',
  '--init',
  '--cap-drop=ALL',
  '--security-opt=no-new-privileges',
  '--pids-limit=1024',
];

function subject(label, one) {
  return {
    label,
    warmUp: one,
    round: async () => {
      const took = [];
      for (let n = 0; n < RUNS; n += 1) {
        const began = performance.now();
        const endedAt = await one();
        took.push((endedAt ?? performance.now()) - began);
      }
      return { p50: quantile(took, 0.5), max: Math.max(...took) };
    },
  };
}

async function cli(host, args) {
  const child = spawn('docker', args, { env: { ...process.env, DOCKER_HOST: host }, stdio: 'ignore' });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`docker ${args[0]} ended with ${code}`);
}

async function byEngine(docker, image) {
  const container = await docker.createContainer({
    Image: image,
    HostConfig: {
      NetworkMode: 'longshore',
      Init: true,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      PidsLimit: 1024,
    },
  });
  await container.start();
  await container.wait();
  await container.remove({ force: true, v: true });
}

/** Answers when COMPLETED came, by a stream of the run's topic. */
async function byAgent(url, send, image, options = {}) {
  const topic = `container-${performance.now()}`;
  const completed = completion(url, topic);
  await completed.isOpen;
  bodyOf(await send('POST', '/runs', { image, ...options, event_delivery: { topic } }));
  return completed.at;
}

function completion(url, topic) {
  let opened;
  const isOpen = new Promise((resolve) => {
    opened = resolve;
  });
  const at = new Promise((resolve, reject) => {
    const asked = request(
      `${url}/feed/stream?topic=${topic}`,
      { headers: { 'X-API-Key': KEY } },
      (response) => {
        opened();
        let text = '';
        response.on('data', (bytes) => {
          text += bytes;
          if (text.includes('"type":"FAILED"')) reject(new Error(text));
          if (!text.includes('"type":"COMPLETED"')) return;
          resolve(performance.now());
          asked.destroy();
        });
        response.on('error', () => undefined);
      },
    );
    asked.on('error', reject);
    asked.end();
  });
  return { isOpen, at };
}

async function startAgent(url, dockerHost) {
  const child = spawn(process.execPath, [join(ROOT, 'packages/worker/dist/main.js')], {
    env: {
      PATH: process.env.PATH,
      SERVICE_URL: url,
      SERVICE_API_KEY: KEY,
      SERVICE_WORKER_ID: 'bench',
      SERVICE_WORKER_RUNTIME: 'docker',
      DOCKER_HOST: dockerHost,
      SERVICE_WORKER_LOCAL_REGISTRIES: 'true',
    },
    stdio: ['ignore', process.env.BENCH_AGENT_LOG ? 'inherit' : 'ignore', 'inherit'],
  });
  const gone = once(child, 'exit');
  const stop = stoppedAtTheEnd(async () => {
    child.kill('SIGTERM');
    await gone;
  });
  return { stop };
}
