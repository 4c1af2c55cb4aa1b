import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { Cli } from '../../support/programs/cli.js';
import { withClient } from '../../support/programs/python.js';
import { readLog, readWhole, told } from '../../support/runs/run-log.js';
import { RunViews } from '../../support/runs/run-views.js';
import {
  makeDataDir,
  startService,
  until,
  type ServiceProcess,
  type TestProcess,
} from '../../support/service-process.js';
import { endWorker, ScriptImages } from '../../support/workers/worker-process.js';

const KEY = 'log-lines-admin-key-of-the-tests';
const SECRET = 'value-of-the-secret';
const BAR = '#'.repeat(75);

/** A bar that ends in the reason of the failure, and an event after what was written over. */
const FAILS = String.raw`
printf '\r50 %%\r\033[K{"type":"NOTE","msg":"after a bar"}\n'
i=0; while [ $i -lt 400 ]; do i=$((i+1)); printf '\r%3d %% ####' $i >&2; done
printf ' \033[31mfatal\033[0m: licence expired' >&2; exit 3`;

const BOTH_STREAMS = `
for n in 1 2 3; do printf "step $n "; sleep 1.4; echo "warning $n" >&2; sleep 0.1; echo done; done; exit 4`;

const BARS = `
e=0; while [ $e -lt 120 ]; do e=$((e+1))
  i=0; while [ $i -lt 100 ]; do i=$((i+1)); printf '\\r%3d %% ${BAR}' $i >&2; done
  echo "epoch $e"
done; exit 5`;

const TELLS = String.raw`printf "val\033[1mue-of\033[0m-the-secret\n$TOKEN\r50 %%\n"; exit 6`;

describe('what a program prints with carriage returns and colours', () => {
  let service: ServiceProcess;
  let worker: TestProcess;
  let send: Send;
  let runs: RunViews;
  let cli: Cli;

  beforeAll(async () => {
    service = await startService({
      dataDir: await makeDataDir(),
      env: {
        SERVICE_API_KEYS: `admin:${KEY}`,
        SERVICE_SECRETS_KEY: randomBytes(32).toString('base64'),
        SERVICE_LOG_LIMIT_BYTES: String(256 * 1024),
      },
    });
    send = senderTo(service.url, KEY);
    runs = new RunViews(send);
    cli = await Cli.make({ SERVICE_URL: service.url, SERVICE_API_KEY: KEY });
    const images = await ScriptImages.make();
    await images.add('fails', FAILS);
    await images.add('both', BOTH_STREAMS);
    await images.add('bars', BARS);
    await images.add('tells', TELLS);
    worker = await images.startWorker({ url: service.url, key: KEY, id: 'w-1' });
  });
  afterAll(() => endWorker(worker));

  /** Executes an image. @returns its error message, and its log, which is complete */
  async function failed(image: string, body = {}): Promise<{ id: string; message: string }> {
    const id = await runs.create(image, body);
    const run = await runs.untilState(id, 'FAILED', 'COMPLETED');
    await until(async () => (await readLog(send, id, 'tail=1')).isComplete, 'the log is complete');
    return { id, message: run.execution_summary.error_message };
  }

  const textOf = async (id: string): Promise<string> =>
    (await send('GET', `/runs/${id}/logs`, { headers: { Accept: 'text/plain' } })).text;

  test('is found in the error message without what was written over, and every reader shows the same', async () => {
    const { id, message } = await failed('fails');
    const words = '400 % #### fatal: licence expired';
    assert.equal(message, `The container ended with exit code 3. Its last log lines:\n${words}`);
    const texts = told(await readWhole(send, id));
    assert.equal(texts[0], '\u001b[K{"type":"NOTE","msg":"after a bar"}');
    for (const text of texts.slice(1)) assert.match(text ?? '', /^\r? ?\d+ % ####[^%]*$/);
    assert.deepEqual(await runs.timeline(id), ['1 STARTED', '1 NOTE', '1 FAILED']);
    const found = await send('GET', `/runs/${id}/logs?contains=${encodeURIComponent('FATAL: licence')}`);
    assert.match(found.text, /licence expired/);
    const env = { SERVICE_URL: service.url, SERVICE_API_KEY: KEY };
    const explained = await cli.run('run', 'explain', id);
    assert.match(explained.stdout, new RegExp(`^  ${words}$`, 'm'));
    const program = `
try: api.wait("${id}")
except RunFailed as failed: print(failed.log, failed, sep="\\n")
print(len(list(api.logs("${id}"))), [line.text for line in api.logs("${id}")][-1].startswith("400 %"))`;
    const event = '{"type":"NOTE","msg":"after a bar"}';
    assert.equal(
      await withClient(service.url, program, env),
      `['${event}', '${words}']\n` +
        `run ${id} failed (exit, exit code 3): The container ended with exit code 3.\n  | ${event}\n  | ${words}\n2 True\n`,
    );
  });

  test('has in the error message the order of the log when both streams take turns', async () => {
    const { id, message } = await failed('both');
    const intro = 'The container ended with exit code 4. Its last log lines:\n';
    assert.equal(`${message}\n`, intro + (await textOf(id)));
  });

  test('leaves room in the log for the lines beside a progress bar', async () => {
    const { id, message } = await failed('bars');
    const epochs = Array.from({ length: 120 }, (_, n) => `epoch ${n + 1}`);
    const texts = told(await readWhole(send, id));
    assert.deepEqual(
      texts.filter((text) => text?.startsWith('epoch')),
      epochs,
    );
    assert.equal(message.split(BAR).length, 2, 'the bar is there once');
  });

  test('tells no value of a secret that comes together when escape sequences are removed', async () => {
    const secret = await send('PUT', '/secrets/token', { body: { kind: 'opaque', value: SECRET } });
    assert.equal(secret.status, 201, secret.text);
    const { id, message } = await failed('tells', { secrets: { TOKEN: 'token' } });
    assert.ok(message.endsWith('lines:\n***\n50 %'), message);
    assert.ok(!(await textOf(id)).includes(SECRET));
  });
});
