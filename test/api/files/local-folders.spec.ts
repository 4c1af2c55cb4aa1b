import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFile, mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, describe, test, vi } from 'vitest';
import { readArtifacts } from '../../../packages/cli/src/runs/artifact-flags.js';
import { Session } from '../../../packages/cli/src/service/session.js';
import { Output } from '../../../packages/cli/src/terminal/output.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { bodyOf } from '../../support/http/answer-shapes.js';

describe('what `run create --in PATH=@SOURCE` sends', () => {
  const service = useTestApp();
  const files = new FileSteps(service.send);
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-local-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const countFiles = async (): Promise<number> =>
    (await service.dataSource.query('select count(*)::int as n from files'))[0].n;

  /** Reads the flag, and sends what is new. @returns id of the file that the run gets */
  const send = async (path: string): Promise<string> => {
    const output = new Output(new PassThrough(), new PassThrough(), {});
    const connection = { url: service.url, apiKey: KEYS.client };
    const session = new Session(connection, output, new AbortController().signal);
    const { artifacts } = await readArtifacts({ in: [`/app=@${path}`] }, session, {});
    return artifacts?.in?.['/app']?.file ?? assert.fail();
  };
  const fetched = async (id: string): Promise<Buffer> => {
    const { url } = bodyOf(await files.content(id), 'FileUrl');
    return Buffer.from(await (await fetch(url)).arrayBuffer());
  };

  test('of a folder of 2,000 files is one archive, nothing while it is unchanged, and one more when a line has changed', async () => {
    for (let nth = 0; nth < 20; nth += 1) await mkdir(join(folder, 'many', `${nth}`), { recursive: true });
    const path = (nth: number): string => join(folder, 'many', `${nth % 20}`, `${nth}.txt`);
    for (let nth = 0; nth < 2000; nth += 1) await writeFile(path(nth), `line of ${nth}\n`);
    const { fetch: real } = globalThis;
    let sent = 0;
    const watched = vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
      if (init?.method === 'PUT') sent += 1;
      return real(input, init);
    });
    const before = await countFiles();
    const first = await send(join(folder, 'many'));
    await utimes(path(7), 1, 1);
    assert.equal(await send(join(folder, 'many')), first);
    assert.deepEqual([sent, await countFiles()], [1, before + 1]);
    await writeFile(path(1234), 'another line\n');
    const changed = await send(join(folder, 'many'));
    assert.notEqual(changed, first);
    assert.deepEqual([sent, await countFiles()], [2, before + 2]);
    watched.mockRestore();
    const listed = execFileSync('tar', ['-tz'], { input: await fetched(changed), encoding: 'utf8' });
    assert.equal(listed.split('\n').filter((name) => name.endsWith('.txt')).length, 2000);
  });

  test('of a file that grows meanwhile is what it was when the command began', async () => {
    const path = join(folder, 'grows.log');
    await writeFile(path, 'x'.repeat(100_000));
    const { fetch: real } = globalThis;
    const growing = vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
      if (init?.method === 'PUT') await appendFile(path, 'y'.repeat(100_000));
      return real(input, init);
    });
    const id = await send(path);
    growing.mockRestore();
    assert.equal(String(await fetched(id)), 'x'.repeat(100_000));
  });
});
