import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { describe, it } from 'vitest';
import { COMPILED } from '../../support/service-process.js';

describe('a log on standard output', () => {
  it('writes JSON when it is no terminal, and loses nothing when the process exits at once', async () => {
    const code = `import { createLog } from ${JSON.stringify(pathToFileURL(join(COMPILED, 'src', 'common', 'logging', 'logger.js')).href)};
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
