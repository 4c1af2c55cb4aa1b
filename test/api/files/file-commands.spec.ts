import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, beforeEach, describe, test, vi } from 'vitest';
import { download } from '../../../packages/cli/src/files/download.js';
import { Session } from '../../../packages/cli/src/service/session.js';
import { Output } from '../../../packages/cli/src/terminal/output.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { typeCommand, type Typed } from '../../support/programs/type-command.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

async function fetched(url: string): Promise<Buffer> {
  return Buffer.from(await (await fetch(url)).arrayBuffer());
}

describe('files on the command line', () => {
  const service = useTestApp();
  const files = new FileSteps(service.send);
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-files-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));
  // What else waits would be claimed.
  beforeEach(async () => {
    await service.dataSource.query(`delete from runs where state = 'PENDING'`);
  });

  const countFiles = async (): Promise<number> =>
    (await service.dataSource.query('select count(*)::int as n from files'))[0].n;

  const typed: Typed = (...argv) =>
    typeCommand({ SERVICE_URL: service.url, SERVICE_API_KEY: KEYS.admin, HOME: folder }, argv);

  const create = async (...flags: readonly string[]): Promise<any> => {
    const { code, printed, error } = await typed('run', 'create', 'i', ...flags);
    assert.equal(code, 0, error);
    return bodyOf(await service.send('GET', `/runs/${printed}`), 'OpRun');
  };

  test('go in: a local file, a folder, a file, what a run has left, a store or an address', async () => {
    const source = join(folder, 'src');
    await mkdir(source);
    await writeFile(join(source, 'main.py'), 'print(1)');
    await writeFile(join(folder, 'x.csv'), 'a,b\n');
    const { id } = await files.stored('c');
    const flags = [`/data/x.csv=@${folder}/x.csv`, `/app=@${source}`, `/data/c=${id},unpack`];
    const { id: first, artifacts } = await create(
      ...flags.flatMap((flag) => ['--in', flag]),
      '--out',
      'model=/out/model',
    );
    const { '/data/x.csv': csv, '/app': app, '/data/c': stored } = artifacts.in;
    assert.deepEqual([stored, app.unpack], [{ file: id, unpack: true }, true]);
    assert.deepEqual(artifacts.out, { model: { path: '/out/model' } });
    const sent = [await files.get(csv.file), await files.get(app.file)];
    assert.deepEqual(
      sent.map(({ name, state, content_type: type }) => [name, state, type]),
      [
        ['x.csv', 'stored', null],
        ['src.tar.gz', 'stored', 'application/gzip'],
      ],
    );
    const op = await files.execute({ model: Buffer.from('weights') });
    assert.equal(String(await fetched(op.artifacts.in['/data/x.csv'].get.url)), 'a,b\n');
    const archive = await fetched(op.artifacts.in['/app'].get.url);
    assert.equal(execFileSync('tar', ['-xOz', 'main.py'], { input: archive, encoding: 'utf8' }), 'print(1)');

    // What has not changed is not sent again.
    await utimes(join(source, 'main.py'), 1, 1);
    const again = await create(
      '--in',
      `/app=@${source}`,
      '--in',
      `/m=${first}/model`,
      '--in',
      '/n=@last/model',
    );
    assert.deepEqual(again.artifacts.in, {
      '/app': app,
      '/m': { run: first, name: 'model' },
      '/n': { run: first, name: 'model' },
    });
    const sha256 = 'A'.repeat(64);
    const url = await create('--in', `/u=https://example.com/a,b.tar,sha256=${sha256},unpack`);
    const address = { url: 'https://example.com/a,b.tar', sha256: sha256.toLowerCase(), unpack: true };
    assert.deepEqual(url.artifacts.in, { '/u': address });
    const unknown = await typed('run', 'create', 'i', '--in', '/s=store:datasets/a/b.csv');
    assert.match(unknown.error, /artifacts\.in\["\/s"\].*'?datasets/);
    const target = await typed('run', 'create', 'i', '--out', 'm=/m,to=store:results/${run.id}/m.bin');
    assert.match(target.error, /artifacts\.out\.m.*'?results/);
  });

  test('are sent again when the store fails, and not when only its answer is lost', async () => {
    const path = join(folder, 'again.csv');
    await writeFile(path, randomBytes(100_000));
    const { fetch: real } = globalThis;
    const tries: string[] = ['fails', 'breaks off', 'is lost'];
    const broken = vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
      if (typeof input !== 'string' || init?.method !== 'PUT') return real(input, init);
      const how = tries.shift();
      if (how === 'fails') return new Response('', { status: 503 });
      if (how === 'breaks off') throw new TypeError('fetch failed');
      await real(input, init);
      throw new TypeError('fetch failed');
    });
    const { artifacts } = await create('--in', `/a=@${path}`);
    assert.deepEqual(tries, []);
    assert.equal((await files.get(artifacts.in['/a'].file)).state, 'stored');
    await writeFile(path, randomBytes(100_000));
    broken.mockImplementation(async (input, init) =>
      typeof input === 'string' && init?.method === 'PUT'
        ? new Response('<Error><Code>AccessDenied</Code><Resource>secret</Resource></Error>', { status: 403 })
        : real(input, init),
    );
    const refused = await typed('run', 'create', 'i', '--in', `/a=@${path}`);
    assert.deepEqual(
      [refused.code, refused.error],
      [1, `cannot send ${path}: the store answers HTTP 403 (AccessDenied)`],
    );
    broken.mockRestore();
  });

  test('are said with those of the file of a run, which flags override path by path and name by name', async () => {
    const { id } = await files.stored('c');
    const job = {
      image: 'i',
      artifacts: { in: { '/a': { file: id }, '/b': { file: id } }, out: { o: { path: '/o' } } },
    };
    await writeFile(join(folder, 'job.json'), JSON.stringify(job));
    const { id: other } = await files.stored('d');
    const flags = ['--in', `/b=${other}`, '--out', 'p=/p/*.png,required,always', '--out', 'q=/q,optional'];
    const { printed } = await typed('run', 'create', '-f', join(folder, 'job.json'), ...flags);
    const { body } = await service.send('GET', `/runs/${printed}`);
    assert.deepEqual(body.artifacts, {
      in: { '/a': { file: id }, '/b': { file: other } },
      out: {
        o: { path: '/o' },
        p: { path: '/p/*.png', required: true, when: 'always' },
        q: { path: '/q', required: false },
      },
    });
    assert.match((await typed('run', 'get', printed)).printed, /^files out +'o=\{"path":"\/o"\}' /m);
  });

  test('are not sent when one of them must not be, nor by a dry run', async () => {
    const bad = join(folder, 'bad');
    await mkdir(bad);
    await symlink('/etc/passwd', join(bad, 'l'));
    await writeFile(join(folder, 'new.csv'), String(Math.random()));
    const before = await countFiles();
    const refused = await typed('run', 'create', 'i', '--in', `/a=@${folder}/new.csv`, '--in', `/b=@${bad}`);
    assert.deepEqual([refused.code, refused.notes], [2, '']);
    assert.match(refused.error, /bad\/l is a link that leads out/);
    const pipe = join(folder, 'pipe');
    execFileSync('mkfifo', [pipe]);
    for (const flag of [
      '/a=',
      `/a=@${folder}/none`,
      '/a=/b',
      `/a=@${pipe}`,
      '/a=@/dev/zero',
      'a=@x',
      '/a=store:x',
    ]) {
      assert.equal((await typed('run', 'create', 'i', '--in', flag)).code, 2, flag);
    }
    assert.equal((await typed('run', 'create', 'i', '--out', 'a=/b,requierd')).code, 2);
    const dry = await typed('run', 'create', 'i', '--in', `/a=@${folder}/new.csv`, '--dry-run');
    assert.equal(dry.code, 0, dry.error);
    assert.match(dry.notes, /not sent, and left out: .*new\.csv as \/a/);
    assert.equal(await countFiles(), before);
  });

  test('come out: they are listed, and fetched by name or all, below a folder that is named', async () => {
    const { id } = await create(
      '--out',
      'model=/out/model',
      '--out',
      'plots=/out/plots/**',
      '--out',
      'gone=/x,optional',
    );
    assert.match((await typed('run', 'files', id)).notes, /has left no files/);
    const [model, plot] = [randomBytes(1000), randomBytes(10)];
    await files.execute({ model, 'plots/a/b.png': plot });
    const { printed } = await typed('run', 'files', id);
    assert.match(
      printed,
      /^NAME +STATE +SIZE +SHA256 +TYPE +PLACE\nmodel +stored +1\.0 kB +[0-9a-f]{12} +image\/png +\/out\/model\nplots\/a\/b\.png +stored +10 B /,
    );
    const json = (await typed('run', 'files', id, '--json')).printed.split('\n');
    assert.deepEqual(
      json.map((line) => JSON.parse(line)),
      (await service.send('GET', `/runs/${id}/artifacts`)).body,
    );

    const results = join(folder, 'results');
    const some = await typed('run', 'download', id, 'plots', '-o', results);
    assert.equal(some.printed, join(results, 'plots/a/b.png'), some.error);
    assert.match(some.notes, /FETCHING +#+ +100 % +plots\/a\/b\.png +10 B of 10 B/);
    const all = await typed('run', 'download', id, '-o', results);
    assert.deepEqual(all.printed.split('\n'), [join(results, 'model'), join(results, 'plots/a/b.png')]);
    assert.deepEqual(await readFile(join(results, 'model')), model);
    assert.deepEqual(await readFile(join(results, 'plots/a/b.png')), plot);
    assert.deepEqual((await readdir(results, { recursive: true })).toSorted(), [
      'model',
      'plots',
      'plots/a',
      'plots/a/b.png',
    ]);
    const unknown = await typed('run', 'download', id, 'modell', '-o', results);
    assert.deepEqual(
      [unknown.code, unknown.error],
      [1, 'the run has left no file "modell"; it has left model, plots/a/b.png'],
    );
  });

  test('are fetched from where it broke off, by the same command and by the next one, and checked', async () => {
    const { id } = await create('--out', 'model=/out/model');
    const model = randomBytes(100_000);
    await files.execute({ model });
    const results = join(folder, 'resumed');
    const ranges: (string | null)[] = [];
    const { fetch: real } = globalThis;
    /** Bytes after which each answer breaks off. */
    let breaks: number[] = [];
    let isSpoilt = false;
    const broken = vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
      if (typeof input !== 'string' || !input.includes('/file-store/')) return real(input, init);
      ranges.push(new Headers(init?.headers).get('Range'));
      const at = breaks.shift();
      if (at === 0) return new Response('', { status: 503 });
      const answer = await real(input, init);
      const content = new Uint8Array(await answer.arrayBuffer());
      if (isSpoilt) content[0] = (content[0] ?? 0) ^ 1;
      const pieces = [content.subarray(0, at)];
      const pull = (body: ReadableStreamDefaultController): void => {
        const piece = pieces.shift();
        if (piece !== undefined) body.enqueue(piece);
        else if (at === undefined) body.close();
        else body.error(new Error('broken off'));
      };
      const { status, headers } = answer;
      return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }), { status, headers });
    });
    breaks = [1000, 2000, 0, 0, 0, 0];
    const failed = await typed('run', 'download', id, 'model', '-o', results);
    assert.deepEqual([failed.code, failed.error], [1, 'cannot fetch model: the store answers HTTP 503']);
    assert.deepEqual(ranges.slice(0, 3), [null, 'bytes=1000-', 'bytes=3000-']);
    ranges.length = 0;
    const done = await typed('run', 'download', id, 'model', '-o', results);
    assert.equal(done.code, 0, done.error);
    assert.deepEqual(ranges, ['bytes=3000-']);
    assert.deepEqual(await readFile(join(results, 'model')), model);
    ranges.length = 0;
    assert.equal((await typed('run', 'download', id, '-o', results)).code, 0);
    assert.deepEqual(ranges, [], 'a file that is there is not fetched again');

    await rm(join(results, 'model'));
    isSpoilt = true;
    const wrong = await typed('run', 'download', id, '-o', results);
    assert.match(wrong.error, /model has arrived with another checksum/);
    assert.deepEqual(await readdir(results), []);
    broken.mockRestore();
  });

  test('are not written outside of the folder, whatever their names and the links there are', async () => {
    const { id } = await create('--out', 'plots=/out/plots/**');
    await files.execute({ 'plots/a.png': Buffer.from('a') });
    const [results, outside] = [join(folder, 'linked'), join(folder, 'outside')];
    await mkdir(results);
    await mkdir(outside);
    await symlink(outside, join(results, 'plots'));
    const refused = await typed('run', 'download', id, '-o', results);
    assert.match(refused.error, /plots is there and no folder; links are not followed/);
    const output = new Output(new PassThrough(), new PassThrough(), {});
    const session = new Session(
      { url: service.url, apiKey: KEYS.admin },
      output,
      new AbortController().signal,
    );
    for (const name of ['../x', 'a/../../x', '/x', 'a//x', '.', 'a\0b']) {
      const artifact = { name, bytes: 1, sha256: null, attempt: 1 };
      await assert.rejects(download(session, id, artifact, results), /is no name of a file here/, name);
    }
    await rm(join(results, 'plots'));
    await mkdir(join(results, 'plots'));
    await symlink(join(outside, 'a.png'), join(results, 'plots/a.png'));
    assert.equal((await typed('run', 'download', id, '-o', results)).code, 0);
    assert.equal(await readFile(join(results, 'plots/a.png'), 'utf8'), 'a');
    assert.deepEqual(await readdir(outside), []);
  });

  test('an input of the type file is a local file, which is sent, or the id of one', async () => {
    const body = {
      id: 'convert',
      version: '1',
      image: 'i',
      input_specs: { table: { type: 'file' }, text: { type: 'str' } },
    };
    assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
    await writeFile(join(folder, 'table.csv'), '1,2\n');
    const at = `@${join(folder, 'table.csv')}`;
    const dry = await typed('def', 'run', 'convert', '--table', at, '--input', 'text=@x', '--dry-run');
    assert.equal(dry.code, 0, dry.error);
    assert.match(dry.notes, /not sent, and left out below: .*table\.csv as input table/);
    assert.match(dry.printed, /@x/);
    const run = await typed('def', 'run', 'convert', '--input', `table=${at}`);
    assert.equal(run.code, 0, run.error);
    const { inputs } = (await service.send('GET', `/runs/${run.printed}`)).body;
    const { file } = inputs.table.$artifact;
    assert.deepEqual((await files.get(file)).name, 'table.csv');
    const again = await typed('def', 'run', 'convert', '--table', file);
    assert.deepEqual((await service.send('GET', `/runs/${again.printed}`)).body.inputs, inputs);
    const missing = await typed('def', 'run', 'convert', '--table', '@nothing.csv');
    assert.match(missing.error, /cannot read nothing\.csv/);
  });
});
