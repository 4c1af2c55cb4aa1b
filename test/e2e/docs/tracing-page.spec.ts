import assert from 'node:assert/strict';
import { onTestFinished, test } from 'vitest';
import { Cli } from '../../support/programs/cli.js';
import { DocBlocks } from '../../support/docs/doc-blocks.js';
import { readPage } from '../../support/docs/doc-pages.js';
import { OtlpReceiver } from '../../support/monitoring/otlp-receiver.js';
import { makeDataDir } from '../../support/service-process.js';
import { openTestDatabase } from '../../support/test-database.js';

test('the commands of docs/tracing.md show a run in the trace of its client', async () => {
  const page = 'docs/tracing.md';
  const blocks = await DocBlocks.read(page);
  const collector = await OtlpReceiver.start();
  onTestFinished(() => collector.stop());
  const database = await openTestDatabase();
  onTestFinished(() => database.close());
  const here = (code: string, url: string): string =>
    code.replaceAll('http://127.0.0.1:4318', collector.url).replaceAll('http://127.0.0.1:5555', url);
  const server = await Cli.make({
    DATABASE_URL: database.url,
    SERVICE_PORT: '0',
    SERVICE_API_KEYS: 'admin:page-key-of-the-tests',
  });
  const service = await server.startShell(here(blocks.one('service'), ''));
  const [, url = ''] = await service.untilOutput(/listening on (http:\/\/[\d.:]+)/);
  const person = await Cli.make({
    SERVICE_URL: url,
    SERVICE_API_KEY: 'page-key-of-the-tests',
    SERVICE_WORKER_ID: 'page',
    SERVICE_WORKER_STATE_DIR: await makeDataDir(),
    SERVICE_WORKER_RUNTIME: 'process',
    SERVICE_WORKER_IMAGES_DIR: 'examples/images',
  });
  const worker = await person.startShell(here(blocks.one('worker'), url));
  const { code, stdout, output } = await person.shell(here(blocks.one(), url));
  assert.equal(code, 0, output);
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  assert.match(JSON.parse(stdout).traceparent, new RegExp(`^00-${traceId}-`));
  // Every span that the page shows in the trace of a run.
  const shown = [
    ...(await readPage(page)).text.matchAll(/^ {4,}(POST \S+|[a-z]+(?: [a-z]+)?)(?: {2,}|$)/gm),
  ].map(([, name]) => name);
  assert.ok(shown.length >= 8, shown.join());
  for (const name of shown) {
    await collector.find(`${name}`, (span) => span.name === name && span.traceId === traceId);
  }
  for (const program of [worker, service]) {
    program.signal('SIGTERM', 'group');
    await program.exited;
  }
});
