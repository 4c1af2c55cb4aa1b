import { randomUUID } from 'node:crypto';

const FILLER = 'x'.repeat(480);
const MINIMAL = { Prefer: 'return=minimal' };
const RESOURCES = { cpu_cores: 1, ram_mb: 1, gpus: [] };

/** A body of POST /runs with 500 bytes of inputs. */
export const CREATE = JSON.stringify({ image: 'i', inputs: { filler: FILLER } });
const COMPLETED = { type: 'COMPLETED', msg: '', payload: { outputs: { filler: FILLER } } };
const COMPLETED_TEXT = JSON.stringify(COMPLETED);

/** About 100 bytes of an event that is only recorded. */
const NOTE = JSON.stringify({ type: 'NOTE', msg: 'n', payload: { filler: 'x'.repeat(52) } });

/** What one client does again and again, by name: each entry prepares a client and answers its step. */
export const SCENARIOS = {
  /** create, claim, STARTED, COMPLETED, with 500 bytes of inputs and of outputs; a unit is a completed run.
   * With `topics`, the runs are on that many topics in turn. */
  async lifecycle({ ask, send, n, options: { topic = null, topics } }) {
    const worker = `w${n}`;
    await ask('POST', '/workers/heartbeat', { worker_id: worker, resources: RESOURCES, tags: [] });
    const names = topics === undefined ? [topic] : Array.from({ length: topics }, (_, k) => `scale-${k}`);
    const creates = names.map((name) => JSON.stringify(createOn(name)));
    const started = JSON.stringify(startedBy(worker));
    let next = n * 16;
    return async () => {
      await must(send('POST', '/runs', creates[next++ % creates.length]), 201);
      const { ops } = await ask('POST', `/workers/${worker}/claim`);
      for (const { id, attempt } of ops) {
        const fence = { ...MINIMAL, 'X-Worker-Id': worker, 'X-Run-Attempt': attempt };
        await must(send('POST', `/runs/${id}/events`, started, fence), 204);
        await must(send('POST', `/runs/${id}/events`, COMPLETED_TEXT, fence), 204);
      }
      return ops.length;
    };
  },

  /** The same, so many at a time: one request for the creates, one for the claims, one for each kind of event. */
  async bulkLifecycle({ ask, n, options: { topic = null, size = 100 } }) {
    const worker = `w${n}`;
    await ask('POST', '/workers/heartbeat', { worker_id: worker, resources: RESOURCES, tags: [] });
    const create = JSON.stringify({ runs: Array.from({ length: size }, () => createOn(topic)) });
    const report = async (ops, event) => {
      const events = ops.map(({ id, attempt }) => ({ run_id: id, attempt, ...event }));
      allDone(await ask('POST', `/workers/${worker}/events`, { events }, MINIMAL));
    };
    return async () => {
      allDone(await ask('POST', '/runs/batch', create, MINIMAL));
      const { ops } = await ask('POST', `/workers/${worker}/claim?max=${size}`);
      if (ops.length === 0) return 0;
      await report(ops, startedBy(worker));
      await report(ops, COMPLETED);
      return ops.length;
    };
  },

  /** POST /runs. */
  async create({ send }) {
    return () => must(send('POST', '/runs', CREATE), 201);
  },

  /** An event on a run of the client's own or, with `runId`, on one that all clients share. */
  async append({ ask, send, options: { runId } }) {
    const { id } = runId === undefined ? await ask('POST', '/runs', CREATE) : { id: runId };
    const path = `/runs/${id}/events`;
    return () => must(send('POST', path, NOTE, MINIMAL), 204);
  },

  /** A heartbeat of a worker of the client's own. */
  async heartbeat({ ask, send }) {
    const body = heartbeatOf(randomUUID());
    await ask('POST', '/workers/heartbeat', body);
    return () => must(send('POST', '/workers/heartbeat', body), 200);
  },

  /**
   * A claim. What it got is completed, and another run created in its place, while the next claims are under way.
   * With `tags` and `run` the workers have these tags and the created runs these fields.
   */
  async claim({ ask, send, n, options: { tags, run = {} } }) {
    const create = JSON.stringify({ ...JSON.parse(CREATE), ...run });
    const worker = `claimant${n}`;
    const heartbeat = () => must(send('POST', '/workers/heartbeat', heartbeatOf(worker, tags)), 200);
    const replace = async ({ id }) => {
      await must(send('POST', `/runs/${id}/events`, COMPLETED_TEXT, MINIMAL), 204);
      await must(send('POST', '/runs', create), 201);
    };
    let seenAt = performance.now();
    await heartbeat();
    const replacing = new Set();
    const step = async () => {
      const { ops } = await ask('POST', `/workers/${worker}/claim`);
      for (const op of ops) {
        const replaced = replace(op)
          .catch(() => undefined)
          .finally(() => replacing.delete(replaced));
        replacing.add(replaced);
      }
      if (performance.now() - seenAt < 20_000) return;
      seenAt = performance.now();
      heartbeat().catch(() => undefined);
    };
    // The queue has as many runs afterwards as before.
    return Object.assign(step, { finish: () => Promise.all(replacing) });
  },

  /**
   * GET of paths in turn, from a place of the client's own on: `/runs/{runId}` unless they are given. With `conditional`
   * each must be unchanged since the client has read it.
   */
  async read({ send, n, options: { runId, path = `/runs/${runId}`, paths = [path], conditional = false } }) {
    let at = n * 7;
    const next = () => paths[at++ % paths.length];
    if (!conditional) return () => must(send('GET', next()), 200);
    const own = next();
    const etag = (await send('GET', own)).header('ETag');
    return () => must(send('GET', own, undefined, { 'If-None-Match': etag }), 304);
  },
};

/** A body of POST /workers/heartbeat of a worker that runs nothing. */
export function heartbeatOf(worker, tags = ['a']) {
  return JSON.stringify({
    worker_id: worker,
    resources: { cpu_cores: 8, ram_mb: 16_384, gpus: [] },
    tags,
    running_ops: [],
  });
}

function createOn(topic) {
  const run = { image: 'i', inputs: { filler: FILLER } };
  return topic === null ? run : { ...run, event_delivery: { topic } };
}

function startedBy(worker) {
  return { type: 'STARTED', msg: '', payload: { worker_id: worker } };
}

/** @throws Error when the answer has another status */
async function must(answering, status) {
  const answer = await answering;
  if (answer.status !== status) throw new Error(`answered ${answer.status}: ${answer.text()}`);
}

/** @throws Error when one of the items of a bulk answer is no success */
function allDone({ results }) {
  const refused = results.find(({ status }) => status >= 300);
  if (refused !== undefined) throw new Error(`an item was answered ${JSON.stringify(refused)}`);
}
