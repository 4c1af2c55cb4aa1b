import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Cli } from '../../support/programs/cli.js';
import { DocBlocks } from '../../support/docs/doc-blocks.js';
import type { TestProcess } from '../../support/service-process.js';

const WRITTEN_URL = 'http://127.0.0.1:5555';

describe('the commands of docs/cli.md', () => {
  let cli: Cli;
  let service: TestProcess;
  let worker: TestProcess | undefined;
  let blocks: DocBlocks;

  beforeAll(async () => {
    const key = randomBytes(32).toString('base64');
    cli = await Cli.make({ SERVICE_PORT: '0', SERVICE_SECRETS_KEY: key });
    blocks = await DocBlocks.read('docs/cli.md');
  });
  afterAll(async () => {
    for (const started of [worker, service]) {
      started?.signal('SIGTERM');
      await started?.exited;
    }
  });

  test('start a service and a worker, and do in their order what stands there', async () => {
    service = await cli.startShell(`exec ${blocks.one('service')}`);
    const [, url = ''] = await service.untilOutput(/listening on (http:\/\/[\d.:]+)/);
    const [login = '', ...others] = blocks.all();
    const here = (code: string): string => code.replaceAll(WRITTEN_URL, url);
    const loggedIn = await cli.shell(here(login));
    assert.equal(loggedIn.code, 0, loggedIn.output);
    worker = await cli.startShell(`exec ${blocks.one('worker')}`);
    await worker.untilOutput(/registered at the service/);
    assert.ok(others.length >= 7);
    const { code, stdout, output } = await cli.shell(`set -o pipefail\n${here(others.join('\n'))}`);
    assert.equal(code, 0, output);
    for (const said of [
      /^counted: \{"words": 6,/m,
      /^outputs +\{"words":6,/m,
      /^it failed: exit code 1$/m,
      /^words\/1 created$/m,
      /^2026-03-29T03:30:00\+02:00 {2}skipped hour$/m,
      /^it would change something: exit code 2$/m,
      /^hub-token created$/m,
      /^\S{36} revoked$/m,
      /"state":"COMPLETED"/,
      /^removed .*config\.json$/m,
    ]) {
      assert.match(stdout, said);
    }
  });

  test('are all that the command line has', async () => {
    const { stdout } = await cli.shell(
      'for group in "" run def group schedule workers feed keys secrets; do longshore complete -- $group ""; done',
    );
    const text = blocks.names.flatMap((name) => blocks.all(name)).join('');
    const groups = new Set(['run', 'def', 'group', 'schedule', 'workers', 'feed', 'keys', 'secrets']);
    const commands = stdout.split('\n').flatMap((line) => /^([a-z]+)\t/.exec(line)?.[1] ?? []);
    assert.ok(commands.length > 20, stdout);
    for (const name of commands.filter((command) => !groups.has(command))) {
      if (name === 'list') continue;
      assert.match(text, new RegExp(`longshore (?:[a-z]+ )?${name}\\b`), name);
    }
  });
});
