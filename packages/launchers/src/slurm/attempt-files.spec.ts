import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { JobSpec } from '../launcher/engine.js';
import { jobSpec } from '../testing/job-spec.js';
import { attemptFiles, type AttemptPlace } from './attempt-files.js';

function spec(fields: Partial<JobSpec> = {}): JobSpec {
  return jobSpec({ runId: 'r', attempt: 1, image: 'reg.test:5000/a/tool:1', ...fields });
}

describe('the files of an attempt', () => {
  const imagesDir = mkdtempSync(join(tmpdir(), 'longshore-images-'));
  const place = (tool: AttemptPlace['tool']): AttemptPlace => ({
    tool,
    imagesDir,
    workerId: 'w',
    folder: '/s/d/r.1',
    mounts: [],
    artifacts: null,
  });

  beforeAll(() => {
    mkdirSync(join(imagesDir, 'tool'));
    const config = {
      Entrypoint: ['/entry', '-x'],
      Cmd: ['cmd'],
      Env: ['A=image', 'B=image'],
      WorkingDir: '/work',
    };
    writeFileSync(join(imagesDir, 'tool.json'), JSON.stringify({ config }));
    mkdirSync(join(imagesDir, 'bare'));
    mkdirSync(join(imagesDir, 'broken'));
    writeFileSync(join(imagesDir, 'broken.json'), 'no JSON');
  });
  afterAll(() => rmSync(imagesDir, { recursive: true }));

  test('replace entrypoint and arguments of an image folder as Kubernetes does', async () => {
    const inFolder = place('charliecloud');
    const commandOf = async (fields: Partial<JobSpec>): Promise<unknown> =>
      (await attemptFiles(spec(fields), inFolder)).command;
    assert.deepEqual(await commandOf({}), ['/entry', '-x', 'cmd']);
    assert.deepEqual(await commandOf({ args: ['a'] }), ['/entry', '-x', 'a']);
    assert.deepEqual(await commandOf({ command: ['/c'] }), ['/c']);
    assert.deepEqual(await commandOf({ command: ['/c'], args: ['a'] }), ['/c', 'a']);
  });

  test('put the variables of the run above those of the image, secrets above them, and our own on top', async () => {
    const given = {
      env: { A: 'run', SECRET: 'run', SERVICE_INPUT_PATH: 'run', TRACEPARENT: 'run' },
      secrets: { SECRET: 'value' },
      trace: { traceparent: '00-1-2-01', tracestate: null },
    };
    const { env } = await attemptFiles(spec(given), place('charliecloud'));
    const { A, B, SECRET, SERVICE_INPUT_PATH, TRACEPARENT } = env;
    assert.deepEqual(
      [A, B, SECRET, SERVICE_INPUT_PATH, TRACEPARENT],
      ['run', 'image', 'value', '/mnt/input.json', '00-1-2-01'],
    );
    assert.equal(env['HOME'], '/mnt/home', 'images are read-only');
    const home = await attemptFiles(spec({ env: { HOME: '/data' } }), place('charliecloud'));
    assert.equal(home.env['HOME'], '/data');
    const own = await attemptFiles(spec(given), place({ script: '/x' }));
    assert.deepEqual(
      [own.env['SERVICE_OUTPUT_PATH'], own.env['SERVICE_RUN_ATTEMPT']],
      ['/s/d/r.1/io/output.json', '1'],
    );
    const { forTool, env: none } = await attemptFiles(spec(given), place('runc'));
    assert.deepEqual(none, {});
    assert.match(forTool['oci-config'] ?? '', /"SECRET=value"/);
  });

  test('have the files of the run, and keep the values of those that are secrets by path', async () => {
    const files = [
      { path: '/etc/text', content: 'text', mode: 0o555, isSecret: false },
      { path: '/run/key', content: 'value', mode: 0o400, isSecret: true },
    ];
    for (const tool of ['charliecloud', 'runc'] as const) {
      const { runFiles, secrets, env, forTool } = await attemptFiles(
        spec({ files, secrets: { TOKEN: 'token' } }),
        place(tool),
      );
      assert.deepEqual([runFiles, secrets], [files, { TOKEN: 'token', '/run/key': 'value' }]);
      assert.ok(!JSON.stringify([env, forTool]).includes('"value"'), 'the tool is not told');
    }
    const { forTool } = await attemptFiles(spec({ files }), place('runc'));
    const { mounts }: { readonly mounts: readonly unknown[] } = JSON.parse(forTool['oci-config'] ?? '');
    const binds = [0, 1].map((index) => ({
      destination: files[index]?.path,
      type: 'bind',
      source: `/s/d/r.1/mounts/${index}`,
      options: ['rbind', 'ro'],
    }));
    assert.deepEqual(mounts.slice(-2), binds);
  });

  test('are refused for an image without a folder, without a program, or with a broken configuration', async () => {
    for (const image of ['other', 'bare', 'broken', '../tool', 'a/..'])
      for (const tool of ['charliecloud', 'runc'] as const)
        await assert.rejects(attemptFiles(spec({ image }), place(tool)), {
          name: 'RunFault',
          reported: 'image',
        });
    await assert.rejects(attemptFiles(spec({ image: '-x' }), place('apptainer')), { reported: 'image' });
  });

  test('are refused for variables with several lines by the one tool that cannot pass them on', async () => {
    const refused = attemptFiles(spec({ env: { KEY: 'a\nb' } }), place('enroot'));
    await assert.rejects(refused, { name: 'RunFault' });
    for (const tool of ['apptainer', 'charliecloud', 'runc', { script: '/x' }] as const)
      await attemptFiles(spec({ env: { KEY: 'a\nb' } }), place(tool));
  });
});
