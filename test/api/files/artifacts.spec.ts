import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { describe, test } from 'vitest';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

describe('artifacts of runs', () => {
  const service = useTestApp({});
  const files = new FileSteps(service.send);
  let workers = 0;

  /** A worker that takes a run with files, which is the only one in the queue. */
  const claim = async (): Promise<{ id: string; op: any; headers: Record<string, string> }> => {
    const id = `files-${(workers += 1)}`;
    const beat = {
      worker_id: id,
      capabilities: ['artifacts'],
      resources: { cpu_cores: 4, ram_mb: 1000, gpus: [] },
      tags: [],
    };
    bodyOf(
      await service.send('POST', '/workers/heartbeat', { key: KEYS.worker, body: beat }),
      'HeartbeatResponse',
    );
    const { body } = await service.send('POST', `/workers/${id}/claim?max=1`, { key: KEYS.worker });
    const [op] = body.ops;
    return { id, op, headers: { 'X-Worker-Id': id, 'X-Run-Attempt': String(op?.attempt ?? 1) } };
  };

  test('x', async () => {
    const { id } = await files.stored('a,b\n');
    const created = await service.send('POST', '/runs', {
      body: {
        image: 'busybox',
        inputs: { data: { $artifact: { file: id } }, n: 1 },
        outputs: { report: { $artifact: 'report' }, n: 12345678901234567890n.toString() },
        artifacts: {
          in: { '/data/a.csv': { file: id } },
          out: { model: { path: '/out/model.bin' }, plots: { path: '/out/*.png' } },
        },
      },
    });
    assert.equal(created.status, 201, created.text);
    const worker = await claim();
    console.log(JSON.stringify(worker.op, null, 1));
    assert.equal(await (await fetch(worker.op.inputs.data)).text(), 'a,b\n');
    assert.equal(await (await fetch(worker.op.artifacts.in['/data/a.csv'].get.url)).text(), 'a,b\n');
    const urls = await service.send('POST', `/runs/${worker.op.id}/artifact-urls`, {
      key: KEYS.worker,
      headers: worker.headers,
      body: { names: ['model', 'plots/a.png', 'report'] },
    });
    console.log(urls.text);
    const { model, report } = urls.body.urls;
    assert.equal((await files.put(model, 'weights')).status, 200);
    const own = await service.send('GET', `/runs/${worker.op.id}`, {
      key: KEYS.worker,
      headers: worker.headers,
    });
    assert.equal((await fetch(own.body.outputs.report, { method: 'PUT', body: 'all is well' })).status, 200);
    const done = await service.send('POST', `/runs/${worker.op.id}/events`, {
      key: KEYS.worker,
      headers: worker.headers,
      body: { type: 'STARTED', msg: 'x', payload: { worker_id: worker.id } },
    });
    assert.equal(done.status, 200, done.text);
    const end = await service.send('POST', `/runs/${worker.op.id}/events`, {
      key: KEYS.worker,
      headers: worker.headers,
      body: {
        type: 'COMPLETED',
        msg: `see ${report.url}`,
        payload: {
          outputs: {
            report: own.body.outputs.report,
            text: `at ${own.body.outputs.report}`,
            in: worker.op.inputs.data,
            n: 1,
          },
          artifacts: [
            {
              name: 'model',
              path: '/out/model.bin',
              bytes: 7,
              sha256: hash('sha256', 'weights'),
              content_type: 'application/octet-stream',
            },
          ],
        },
      },
    });
    assert.equal(end.status, 200, end.text);
    console.log(JSON.stringify(end.body, null, 1));
    const list = await service.send('GET', `/runs/${worker.op.id}/artifacts`);
    console.log(list.text);
    const content = await service.send('GET', `/runs/${worker.op.id}/artifacts/model?redirect=false`);
    assert.equal(content.status, 200, content.text);
    assert.equal(await (await fetch(content.body.url)).text(), 'weights');
    assert.equal((await files.put(model, 'late')).status, 409);
    assertError(
      await service.send('GET', `/runs/${worker.op.id}/artifacts/plots%2Fa.png`),
      404,
      `Run ${worker.op.id} has no artifact 'plots/a.png'`,
    );
  });
});
