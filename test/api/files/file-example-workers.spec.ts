import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { launch, until } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';
import { EXAMPLE_WORKER, SMALLEST_WORKER, whyNoPython } from '../../support/workers/example-worker.js';

/** Fetches its input, sends it in capitals, and returns where it has sent it. */
const PROGRAM = `
import json, os, urllib.request
inputs, outputs = (json.load(open(os.environ[f"SERVICE_{name}_PATH"])) for name in ("INPUT", "OUTPUT"))
table = urllib.request.urlopen(inputs["table"]).read()
urllib.request.urlopen(urllib.request.Request(outputs["report"], table.upper(), method="PUT"))
json.dump({"report": outputs["report"], "bytes": len(table)}, open(os.environ["SERVICE_OUTPUT_PATH"], "w"))
`;

const OPEN = ['PENDING', 'ASSIGNED', 'RUNNING'];

describe('files of runs by workers without the capability', skipFor(whyNoPython()), () => {
  const service = useTestApp();
  const files = new FileSteps(service.send);
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-workers-'));
    await writeFile(join(folder, 'program.py'), PROGRAM);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  for (const [name, worker] of [
    ['the example worker', EXAMPLE_WORKER],
    ['the smallest one', SMALLEST_WORKER],
  ] as const) {
    test(`go in and out by $artifact with ${name}, which gets no run with artifacts`, async () => {
      const { id: file } = await files.stored('a,b\n');
      const key = KEYS.client;
      const body = {
        image: 'i',
        inputs: { table: { $artifact: { file } } },
        outputs: { report: { $artifact: 'report' } },
      };
      const artifacts = { in: { '/a': { file } } };
      const { id: refused } = (await service.send('POST', '/runs', { key, body: { image: 'i', artifacts } }))
        .body;
      const { id } = (await service.send('POST', '/runs', { key, body })).body;
      const started = await launch(['python3', worker], {
        env: {
          SERVICE_URL: service.url,
          SERVICE_API_KEY: KEYS.worker,
          SERVICE_WORKER_ID: `python-${name.length}`,
          SERVICE_WORKER_COMMAND: `python3 ${join(folder, 'program.py')}`,
        },
      });
      const read = async (path: string) => (await service.send('GET', path, { key })).body;
      await until(async () => !OPEN.includes((await read(`/runs/${id}`)).state), 'the end of the run');
      const run = await read(`/runs/${id}`);
      assert.deepEqual(
        [run.state, run.outputs],
        ['COMPLETED', { report: { $artifact: 'report' }, bytes: 4 }],
      );
      const { url } = await read(`/runs/${id}/artifacts/report?redirect=false`);
      assert.equal(await (await fetch(url)).text(), 'A,B\n');
      assert.match(JSON.stringify(await read(`/runs/${refused}/explain`)), /artifacts/);
      assert.equal((await read(`/runs/${refused}`)).state, 'PENDING');
      await service.send('POST', `/runs/${refused}/cancel`, { key });
      started.signal('SIGTERM');
      assert.equal((await started.exited).code, 0, 'the end of the run');
    });
  }
});
