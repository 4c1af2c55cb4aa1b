import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { describe, onTestFinished, test } from 'vitest';
import { withClient } from '../../support/programs/python.js';
import { PROJECT } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';

const RUN = {
  id: 'r-1',
  state: 'FAILED',
  inputs: {},
  outputs: {},
  current_attempt: 1,
  progress: 100,
  execution_summary: {
    cause: 'exit',
    exit_code: 3,
    error_message: 'Ended with exit code 3. Its last log lines:\nas in the log',
  },
};

/** Serves a run that has failed, and its log page by page. */
async function serveLog(...pages: readonly (readonly object[])[]): Promise<{ readonly url: string }> {
  const server = createServer(({ url = '' }, response) => {
    const { pathname, searchParams } = new URL(url, 'http://host');
    if (!pathname.endsWith('/logs')) {
      response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(RUN));
      return;
    }
    const page = Number(searchParams.get('after') ?? 0);
    response.writeHead(200, {
      'Content-Type': 'application/x-ndjson',
      'X-Log-Next-Cursor': String(page + 1),
      'X-Log-Complete': String(page + 1 >= pages.length),
    });
    response.end((pages[page] ?? []).map((line) => `${JSON.stringify(line)}\n`).join(''));
  }).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { url: `http://127.0.0.1:${address.port}` };
}

function piece(line: number, text: string, continued = false, stream = 'stderr'): object {
  return { line, text, stream, t: 't', ...(continued && { continued }) };
}

describe('logs in the client for Python', skipFor(whyNoPython()), () => {
  test('keeps and shows the lines of a log by the same rule as the other programs', async () => {
    const cases = join(PROJECT, 'packages', 'common', 'src', 'shown-text.cases.json');
    const program = `
import json
from longshore import lines
for each in json.load(open(${JSON.stringify(cases)})):
    kept = [lines.last_state(piece, n > 0) for n, piece in enumerate(each["pieces"])]
    assert kept == each["kept"], (each, kept)
    for pieces in (each["pieces"], kept):
        assert lines.shown_line("".join(pieces)) == each["shown"], each
print("same")`;
    assert.equal(await withClient('http://127.0.0.1:1', program), 'same\n');
  });

  test('has in the exception of a failure the last lines once, as a terminal shows them', async () => {
    const pieces = [
      piece(0, ' 10 %'),
      piece(1, 'epoch 1', false, 'stdout'),
      ...Array.from({ length: 400 }, (_, n) => piece(n + 2, `\r${n} %`, true)),
      piece(402, ' \u001b[31mfatal\u001b[0m\u001b]0;title\u0007: licence', true),
    ];
    const { url } = await serveLog(pieces);
    const program = `
try: api.wait("r-1")
except RunFailed as failed: print(failed.log, failed, sep="\\n")`;
    assert.equal(
      await withClient(url, program),
      "['epoch 1', '399 % fatal: licence']\n" +
        'run r-1 failed (exit, exit code 3): Ended with exit code 3.\n  | epoch 1\n  | 399 % fatal: licence\n',
    );
  });

  test('has of long lines the end in the exception of a failure, and 8,192 characters at most', async () => {
    const long = 'x'.repeat(16_384);
    const pieces = [piece(0, 'first'), piece(1, long), piece(2, `${long}fatal`, true), piece(3, 'bye')];
    const { url } = await serveLog(pieces);
    const program = `
try: api.wait("r-1")
except RunFailed as failed: print(len(failed.log), sum(map(len, failed.log)), failed.log[0][-6:], failed.log[1])`;
    assert.equal(await withClient(url, program), '2 8192 xfatal bye\n');
  });

  test('gives the lines of a log whole, of a bar its last state, and an unfinished one when nothing follows', async () => {
    const { url } = await serveLog(
      [piece(0, '10 %\r20 %'), piece(1, '\r30 %', true)],
      [piece(2, '\r\u001b[32m40 %\r', true), piece(3, 'next')],
      [piece(4, ' one', true)],
      [],
      [piece(5, ' more', true), piece(6, 'other', true, 'stdout')],
    );
    const program = `
for line in api.logs("r-1", follow=True): print(line.number, line.continued, repr(line.text))`;
    assert.equal(
      await withClient(url, program),
      "0 False '\\x1b[32m40 %'\n3 False 'next one'\n5 True ' more'\n6 True 'other'\n",
    );
  });
});
