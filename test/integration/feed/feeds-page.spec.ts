import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'vitest';
import { blocksOf, readPage } from '../../support/docs/doc-pages.js';
import { launch, makeDataDir } from '../../support/service-process.js';

const event = { run_id: 'r', type: 'STARTED', state: 'RUNNING' };

/** What the service answers, one after the other. */
const ANSWERS = [
  { events: [event], next_cursor: 'first', has_more: false },
  { events: [], next_cursor: null, has_more: false },
  { events: [event], next_cursor: 'second', has_more: false },
];

test('the reader of docs/feeds.md keeps its cursor on an empty page', async () => {
  const [reader] = blocksOf(await readPage('docs/feeds.md')).filter(({ language }) => language === 'python');
  const folder = await makeDataDir();
  await writeFile(join(folder, 'feed.py'), reader?.code ?? '');
  const asked: (string | null)[] = [];
  const server = createServer((request, response) => {
    asked.push(new URL(request.url ?? '', 'http://localhost').searchParams.get('after'));
    const answer = ANSWERS.shift();
    // The reader ends at a refusal, with what it says.
    response.statusCode = answer === undefined ? 410 : 200;
    response.end(JSON.stringify(answer ?? { detail: 'the cursor to go on from is' }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const env = { SERVICE_URL: `http://127.0.0.1:${port}`, SERVICE_API_KEY: 'key' };
  const python = await launch(['python3', 'feed.py'], { cwd: folder, env });
  const { code } = await python.exited;
  server.close();
  assert.equal(code, 1, python.output);
  assert.match(python.output, /the cursor to go on from is/);
  assert.deepEqual(asked, [null, 'first', 'first', 'second']);
});
