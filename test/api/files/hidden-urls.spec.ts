import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { KEYS, type TestAppOptions } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { HeldRun } from '../../support/files/held-run.js';
import { useS3Bucket } from '../../support/files/s3-bucket.js';
import { ApiDescription, readApiDocument } from '../../support/fuzz/api-document.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { LOCAL_RECEIVERS, startReceiver, type Receiver } from '../../support/webhooks/receiver.js';
import { received, WebhookSteps } from '../../support/webhooks/webhook-steps.js';

/** Routes that give URLs to those who may have them, or never end. */
const LEFT_OUT = /^\/files\/\{id\}\/content$|^\/runs\/\{id\}\/artifacts\/\{name\}$|stream/;

for (const kind of ['a folder', 'a bucket'] as const) {
  describe(`signatures of URLs of ${kind}, and its keys`, () => {
    const bucket = useS3Bucket();
    let folder: string;
    let receiver: Receiver;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'longshore-hidden-'));
      receiver = await startReceiver();
    });
    afterAll(async () => {
      await receiver.close();
      await rm(folder, { recursive: true, force: true });
    });
    const service = useTestApp((): TestAppOptions => {
      const env = kind === 'a folder' ? { SERVICE_FILES_URL: `file:${folder}` } : bucket.env;
      return { env: { ...env, ...LOCAL_RECEIVERS } };
    });
    const files = new FileSteps(service.send);
    const runs = new RunSteps(service.send);

    /** What nothing may contain. */
    const secrets = async (): Promise<string[]> =>
      kind === 'a folder'
        ? ['signature=', await readFile(join(folder, '.secret'), 'utf8')]
        : ['X-Amz-Signature', 'X-Amz-Credential', bucket.env['AWS_SECRET_ACCESS_KEY'] ?? ''];
    const assertHidden = async (text: string, where: string): Promise<void> => {
      for (const secret of await secrets()) {
        for (const form of [secret, Buffer.from(secret).toString('hex')]) {
          const at = text.toLowerCase().indexOf(form.toLowerCase());
          assert.equal(at, -1, `${where}: ${text.slice(Math.max(0, at - 200), at + 100)}`);
        }
      }
    };

    /** Every value of every table. */
    const dump = async (): Promise<[string, string][]> => {
      const tables: { name: string }[] = await service.dataSource.query(
        `select c.oid::regclass::text as name
           from pg_class c
          where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace`,
      );
      assert.ok(tables.length > 20);
      const dumped: [string, string][] = [];
      for (const { name } of tables) {
        const [row] = await service.dataSource.query(
          `select coalesce(string_agg(to_jsonb(t)::text, ' '), '') as text from ${name} t`,
        );
        dumped.push([name, row.text]);
      }
      return dumped;
    };

    test('are in no table, answer, message or log line, wherever a worker reports them', async () => {
      const webhooks = new WebhookSteps(service.send);
      const events = ['run.started', 'run.completed', 'run.failed'];
      const { id: webhook } = await webhooks.create({ url: `${receiver.url}/all`, events });
      const { id: file } = await files.stored('rows');
      const { id, event_delivery: delivery } = await runs.create({
        name: 'reporter',
        event_delivery: { topic: 'hidden' },
        inputs: { table: { $artifact: { file } } },
        outputs: { report: { $artifact: 'report' }, again: [{ $artifact: 'report' }] },
        artifacts: { in: { '/in': { file } }, out: { model: { path: '/m' } } },
        retry_policy: { max_attempts: 2 },
      });
      /** Reports all URLs that the worker has, in all ways, and then the end. */
      const talk = async (type: 'FAILED' | 'COMPLETED'): Promise<void> => {
        const held = await HeldRun.claim(service.send);
        await held.started();
        const seen = await held.get();
        const { model } = (await held.urls(['model'])).body.urls;
        const put = { method: 'PUT', body: 'left' };
        assert.ok((await fetch(model.url, put)).ok && (await fetch(seen.outputs.report, put)).ok);
        const urls: string[] = [
          held.op.inputs.table,
          held.op.artifacts.in['/in'].get.url,
          seen.outputs.report,
          model.url,
        ];
        const said = {
          plain: urls,
          text: `see <${urls.join('>, "')}" and so on`,
          json: JSON.stringify({ urls, twice: JSON.stringify(urls) }),
          behind: urls.map((url) => `https://example.com/?a=b&to=${url},http://other/?${url}`),
          slashes: JSON.stringify(urls).replaceAll('/', '\\/').replaceAll('&', '\\u0026'),
          loud: urls.map((url) => `at ${url.replace('http', 'HTTP')}`),
          deep: [{ deeper: urls.map((url) => ({ [url]: url, fragment: `${url}#part` })) }],
        };
        const progress = await held.report('PROGRESS', { ...said }, 50);
        assert.equal(progress.status, 200, progress.text);
        for (const event of ['NOTE', 'PREPARING', 'ANYTHING']) {
          const answer = await held.report(event, { ...said, percent: 50 }, `${event} ${urls.join(' ')}`);
          assert.ok([200, 409].includes(answer.status), answer.text);
        }
        const artifacts = [
          { name: 'model', path: urls[0]?.slice(0, 1000), content_type: urls[1]?.slice(0, 1000) },
        ];
        const payload =
          type === 'COMPLETED'
            ? { outputs: said, artifacts, more: said }
            : { cause: 'error', error_message: `at ${urls.join()}`, artifacts, more: said };
        const key = `end-${type}`;
        const headers = { 'X-Worker-Id': held.worker, 'X-Run-Attempt': String(held.op.attempt) };
        for (const _ of ['first', 'repeated']) {
          const ended = await service.send('POST', `/runs/${id}/events`, {
            key: KEYS.worker,
            headers: { ...headers, 'Idempotency-Key': key },
            body: { type, msg: urls.join(' '), payload },
          });
          assert.equal(ended.status, 200, ended.text);
          await assertHidden(ended.text, `answer to ${type}`);
        }
        const patched = await service.send('PATCH', `/runs/${id}`, {
          headers: { 'Idempotency-Key': `patch-${type}` },
          body: { outputs: { said } },
        });
        assert.equal(patched.status, 200, patched.text);
        await assertHidden(patched.text, 'answer to a PATCH');
      };
      await talk('FAILED');
      await talk('COMPLETED');
      assert.equal(
        (
          await service.send('POST', '/files', {
            body: { name: 'x', bytes: 1 },
            headers: { 'Idempotency-Key': 'file' },
          })
        ).status,
        201,
      );
      await service.send('POST', `/runs/${id}/rerun`, { headers: { 'Idempotency-Key': 'rerun' }, body: {} });
      assert.equal((await service.send('GET', `/runs/${id}`)).body.state, 'COMPLETED');
      assert.equal((await service.send('GET', `/runs/${id}/artifacts`)).body.length, 2);
      for (const { text } of await received(receiver, 3)) await assertHidden(text, 'a webhook');

      for (const [table, text] of await dump()) await assertHidden(text, `table ${table}`);
      const { operations } = new ApiDescription(readApiDocument());
      const known: Readonly<Record<string, string>> = {
        '/runs': id,
        '/files': file,
        '/webhooks': webhook,
        '/feed': delivery.topic,
      };
      let asked = 0;
      for (const { method, path } of operations) {
        if (method !== 'GET' || LEFT_OUT.test(path)) continue;
        const [, first = ''] = /^(\/[^/]+)/.exec(path) ?? [];
        const url = path.replace(/\{[^}]+\}/, known[first] ?? 'reporter').replaceAll(/\{[^}]+\}/g, '1');
        const query = path === '/feed' ? `?topic=${delivery.topic}` : '';
        const { status, text } = await service.send('GET', url + query);
        if (status === 200) asked += 1;
        await assertHidden(text, `GET ${path}`);
      }
      assert.ok(asked > 20, `${asked} routes`);
      for (const page of ['/ui/', `/ui/runs/${id}`]) {
        const { text } = await service.send('GET', page, { headers: { Accept: 'text/html' } });
        await assertHidden(text, `the page ${page}`);
      }
      await assertHidden(JSON.stringify(service.logged), 'the log');
    });
  });
}
