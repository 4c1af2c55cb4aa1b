import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, createReadStream, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { describe, it } from 'vitest';
import { COMPILED } from '../../support/service-process.js';

const LOGGER = JSON.stringify(pathToFileURL(join(COMPILED, 'src', 'common', 'logging', 'logger.js')).href);
const LINES = 20_000;

/** Logs more than pipe and process hold, says so on standard error, and lives until its standard input ends. */
const PROGRAM = `import { createLog } from ${LOGGER};
  const log = createLog({ logLevel: 'error' });
  for (let i = 0; i < ${LINES}; i++) log.error('line', { i, text: 'x'.repeat(100) });
  process.stderr.write('logged');
  process.stdin.resume();`;

describe('the log of a process whose reader does not read', () => {
  for (const kind of ['pipe', 'socket'] as const) {
    it(`lets the process go on, and says at every level how many lines are missing once it reads: a ${kind}`, async () => {
      const folder = mkdtempSync(join(tmpdir(), 'longshore-log-'));
      const path = join(folder, 'pipe');
      execFileSync('mkfifo', [path]);
      const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
      const writer = openSync(path, 'w');
      const child = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], {
        // Node's own pipes to children are sockets.
        stdio: ['pipe', kind === 'pipe' ? writer : 'pipe', 'pipe'],
      });
      closeSync(writer);
      try {
        assert.ok(child.stderr !== null && child.stdin !== null);
        await once(child.stderr, 'data');
        const input = child.stdout ?? createReadStream('', { fd: openSync(path, 'r'), autoClose: true });
        let received = 0;
        let dropped = 0;
        for await (const text of createInterface({ input })) {
          const entry: { readonly msg: string; readonly level: string; readonly lines: number } =
            JSON.parse(text);
          if (entry.msg === 'line') {
            received += 1;
            continue;
          }
          assert.match(entry.msg, /^log lines were dropped/);
          assert.equal(entry.level, 'warning');
          dropped = entry.lines;
          child.stdin.end();
        }
        assert.ok(dropped > 0);
        assert.equal(received + dropped, LINES);
      } finally {
        child.kill('SIGKILL');
        closeSync(reader);
        rmSync(folder, { recursive: true });
      }
    });
  }
});

describe('a log on standard output', () => {
  it('writes JSON when it is no terminal, and loses nothing when the process exits at once', async () => {
    const code = `import { createLog } from ${LOGGER};
      const log = createLog({ logLevel: 'info' });
      for (let i = 0; i < 2000; i++) log.info('line', { i });
      process.exit(0);`;
    const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
      maxBuffer: 1e7,
    });
    const { stdout } = await run;
    const lines = stdout.trimEnd().split('\n');
    assert.equal(lines.length, 2000);
    assert.match(lines[1999] ?? '', /"i":1999/);
  });
});
