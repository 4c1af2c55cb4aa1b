import { randomUUID } from 'node:crypto';

const FILLER = 'x'.repeat(480);
const MINIMAL = { Prefer: 'return=minimal' };

/** What one client does again and again, by name: each entry prepares a client and answers its step. */
export const SCENARIOS = {
  /** create, claim, STARTED, COMPLETED, with 500 bytes of inputs and of outputs. */
  async lifecycle({ ask, send, n, options: { topic = null } }) {
    const worker = `w${n}`;
    const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
    await ask('POST', '/workers/heartbeat', { worker_id: worker, resources, tags: [] });
    const create = {
      image: 'i',
      inputs: { filler: FILLER },
      ...(topic === null ? {} : { event_delivery: { topic } }),
    };
    return async () => {
      await ask('POST', '/runs', create);
      const { ops } = await ask('POST', `/workers/${worker}/claim`);
      for (const { id, attempt } of ops) {
        const fence = { ...MINIMAL, 'X-Worker-Id': worker, 'X-Run-Attempt': String(attempt) };
        const report = async (body) => {
          const { status, text } = await send('POST', `/runs/${id}/events`, body, fence);
          if (status !== 204) throw new Error(text());
        };
        await report({ type: 'STARTED', msg: '', payload: { worker_id: worker } });
        await report({ type: 'COMPLETED', msg: '', payload: { outputs: { filler: FILLER } } });
      }
    };
  },

  /** POST /runs. */
  async create({ ask }) {
    return () => ask('POST', '/runs', { image: 'i', inputs: { filler: FILLER } });
  },

  /** An event on one run, shared by all clients. */
  async append({ ask, options: { runId } }) {
    return () => ask('POST', `/runs/${runId}/events`, { type: 'NOTE', msg: 'n' }, MINIMAL);
  },

  /** A heartbeat of a worker of the client's own. */
  async heartbeat({ ask }) {
    const body = {
      worker_id: randomUUID(),
      resources: { cpu_cores: 8, ram_mb: 16_384, gpus: [] },
      tags: ['a'],
      running_ops: [],
    };
    return () => ask('POST', '/workers/heartbeat', body);
  },

  /** GET /runs/{id} of one run. */
  async read({ ask, options: { runId } }) {
    return () => ask('GET', `/runs/${runId}`);
  },
};
