import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, it } from 'vitest';
import { promisify } from 'node:util';
import { PROJECT } from '../../support/service-process.js';

const run = promisify(execFile);

describe('an installation', () => {
  it('runs no install scripts of packages, whatever the version of npm', async () => {
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !/^npm_config_/i.test(name)),
    );
    const { stdout } = await run('npm', ['config', 'get', 'ignore-scripts'], { cwd: PROJECT, env });
    assert.equal(stdout.trim(), 'true');
  });
});
