import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { startPython, withClient } from '../../support/programs/python.js';
import {
  makeDataDir,
  startService,
  type ServiceProcess,
  type TestProcess,
} from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';
import { endWorker, ScriptImages } from '../../support/workers/worker-process.js';

const ADMIN = 'e2e-admin-key-of-the-tests';
const WORKER = 'e2e-worker-key-of-the-tests';
const LINES = 1500;

describe('runs from Python', skipFor(whyNoPython()), () => {
  let service: ServiceProcess;
  let images: ScriptImages;
  let worker: TestProcess;
  const env: Record<string, string> = { SERVICE_API_KEYS: `admin:${ADMIN},worker:${WORKER}` };

  beforeAll(async () => {
    service = await startService({ dataDir: await makeDataDir(), env });
    images = await ScriptImages.make();
    await images.add('flaky', 'echo "try $SERVICE_RUN_ATTEMPT"; exit 7');
    await images.add(
      'steady',
      `n=0; while [ $n -lt ${LINES} ]; do echo "line $n"; n=$((n+1)); sleep 0.002; done`,
    );
    worker = await images.startWorker({ url: service.url, key: WORKER, id: 'w-1' });
    await worker.untilOutput(/registered at the service/);
  });
  afterAll(async () => {
    await endWorker(worker);
    assert.equal(await service.stop(), 0, service.output);
  });

  const access = (): Record<string, string> => ({ SERVICE_URL: service.url, SERVICE_API_KEY: ADMIN });

  const printed = (program: string): Promise<string> => withClient(service.url, program, access());

  test('follow the logs of all attempts, and fail with those of the last', async () => {
    const program = `
run = api.run_image("flaky", retry_policy={"max_attempts": 2})
print([(line.attempt, str(line)) for line in api.logs(run, follow=True)])
print([str(line) for line in api.logs(run, attempt=1)])
try: api.wait(run)
except RunFailed as failed: print(failed.cause, failed.exit_code, failed.log)`;
    assert.equal(await printed(program), "[(1, 'try 1'), (2, 'try 2')]\n['try 1']\nexit 7 ['try 2']\n");
  });

  test('are cancelled with a reason, also again, and have no log to wait for if no worker got them', async () => {
    const program = `
run = api.run_image("never", selector=["tag-of-no-worker"])
print(api.cancel(run, "not needed").state, api.cancel(run, "again").summary["cancel_reason"])
print(list(api.logs(run, follow=True)))
try: api.wait(run)
except RunCancelled as cancelled: print(cancelled.reason)`;
    assert.equal(await printed(program), 'CANCELLED not needed\n[]\nnot needed\n');
  });

  test('are waited for, logged and fed whole while the service is killed and comes back', async () => {
    const program = `
import threading
api = Longshore()
run = api.run_image("steady", event_delivery={"topic": "steady"})
found = {}

def read_log():
    found["log"] = []
    for line in api.logs(run, follow=True):
        found["log"].append(str(line))
        if len(found["log"]) == 200: print("200 lines", flush=True)

def read_feed():
    found["feed"] = []
    for event in api.feed("steady"):
        found["feed"].append(event["type"])
        if event["state"] == "COMPLETED": return

threads = [threading.Thread(target=each) for each in (read_log, read_feed)]
for thread in threads: thread.start()
print(api.wait(run).state)
for thread in threads: thread.join()
print(found["log"] == [f"line {n}" for n in range(${LINES})], found["feed"])
print(len(list(api.feed("steady", follow=False))))`;
    const reader = await startPython(program, access());
    await reader.untilOutput(/200 lines/);
    const { port } = new URL(service.url);
    const { dataDir } = service;
    await service.kill('SIGKILL');
    service = await startService({ dataDir, env: { ...env, SERVICE_PORT: port } });
    const { code } = await reader.exited;
    assert.equal(code, 0, reader.output);
    assert.equal(reader.stdout, "200 lines\nCOMPLETED\nTrue ['STARTED', 'COMPLETED']\n2\n");
  });
});
