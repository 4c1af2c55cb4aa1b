import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, linkSync, writeFileSync, chmodSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { pack, type Header } from 'tar-stream';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { BrokenTar } from '../../runtime/tar-entries.js';
import { TarTree } from './tar-tree.js';
import { planUnpack, unpackedEntries } from './unpack.js';

let folder = '';
const going = new AbortController().signal;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'unpack-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Entry = Header & { readonly content?: string };

/** A tar as tools write it, with these entries. */
async function tarOf(...entries: readonly Entry[]): Promise<Buffer> {
  const archive = pack();
  for (const { content = '', ...header } of entries) archive.entry({ type: 'file', ...header }, content);
  archive.finalize();
  return buffer(archive);
}

let count = 0;

/** What an archive becomes: each path with its content and mode, `/` for a folder, or an arrow and the target of a link. */
async function unpack(archive: Buffer): Promise<Record<string, string>> {
  const path = join(folder, `${(count += 1)}.tar`);
  await writeFile(path, archive);
  const plan = await planUnpack(path, going);
  const found: Record<string, string> = {};
  for await (const entry of unpackedEntries(path, plan)) {
    if (entry.kind === 'folder') found[entry.path] = '/';
    else if (entry.kind === 'link') found[entry.path] = `-> ${entry.target}`;
    else if (entry.kind === 'same') found[entry.path] = `= ${entry.as}`;
    else found[entry.path] = `${(await text(entry.content)).slice(0, 100)} ${entry.mode.toString(8)}`;
  }
  return found;
}

const refuse = (archive: Buffer, message: RegExp): Promise<void> =>
  assert.rejects(
    unpack(archive),
    (error: Error) => error instanceof BrokenTar && message.test(error.message),
  );

const LONG = `${'d'.repeat(150)}/${'ü'.repeat(90)}/${'f'.repeat(120)}`;

describe('an archive that GNU tar has written', () => {
  for (const [format, compress] of [
    ['ustar', []],
    ['pax', []],
    ['gnu', []],
    ['gnu', ['--gzip']],
    ['pax', ['--zstd']],
  ] as const) {
    it(`is unpacked with its modes, links and long names: ${[format, ...compress].join(' ')}`, async () => {
      const source = join(folder, `source-${format}${compress.join('')}`);
      mkdirSync(join(source, 'src/deep'), { recursive: true });
      writeFileSync(join(source, 'src/run.sh'), 'echo hi', { mode: 0o755 });
      writeFileSync(join(source, 'src/deep/data'), 'x'.repeat(70_000));
      writeFileSync(join(source, 'empty'), '');
      symlinkSync('deep/data', join(source, 'src/link'));
      linkSync(join(source, 'src/run.sh'), join(source, 'src/same'));
      chmodSync(join(source, 'src/deep/data'), 0o600);
      const long = format === 'ustar' ? 'src/short' : LONG;
      mkdirSync(join(source, long, '..'), { recursive: true });
      writeFileSync(join(source, long), 'long');
      const file = `${source}.tar`;
      execFileSync('tar', ['-C', source, `--format=${format}`, '--sort=name', ...compress, '-cf', file, '.']);
      const plan = await planUnpack(file, going);
      const found: Record<string, string> = {};
      for await (const entry of unpackedEntries(file, plan)) {
        if (entry.kind === 'file')
          found[entry.path] = `${(await text(entry.content)).length} ${entry.mode.toString(8)}`;
        if (entry.kind === 'link') found[entry.path] = `-> ${entry.target}`;
        if (entry.kind === 'same') found[entry.path] = `= ${entry.as}`;
      }
      assert.deepEqual(found, {
        empty: '0 444',
        [long]: '4 444',
        'src/deep/data': '70000 444',
        'src/run.sh': '7 555',
        'src/same': '= src/run.sh',
        'src/link': '-> deep/data',
      });
    });
  }
});

describe('an archive', () => {
  it('has of entries of one name the last, without `./` before names, and folders that no entry names', async () => {
    const archive = await tarOf(
      { name: './', type: 'directory' },
      { name: './a/b/c.txt', content: 'first' },
      { name: 'a/b/c.txt', content: 'last', mode: 0o755 },
      { name: 'd', content: 'file' },
      { name: 'd/', type: 'directory' },
    );
    assert.deepEqual(await unpack(archive), { a: '/', 'a/b': '/', d: '/', 'a/b/c.txt': 'last 555' });
  });

  it('may have links within it, also through others, and nothing else', async () => {
    const archive = await tarOf(
      { name: 'x/y/up', type: 'symlink', linkname: '../..' },
      { name: 'in', type: 'symlink', linkname: 'x/y/up/x/./y' },
      { name: 'dangling', type: 'symlink', linkname: 'nowhere' },
    );
    assert.deepEqual(await unpack(archive), {
      x: '/',
      'x/y': '/',
      'x/y/up': '-> ../..',
      in: '-> x/y/up/x/./y',
      dangling: '-> nowhere',
    });
    assert.deepEqual(await unpack(await tarOf()), {});
  });

  it('gives a further name of a file the content that the file had then', async () => {
    const archive = await tarOf(
      { name: 'a', content: 'one' },
      { name: 'b', type: 'link', linkname: './a' },
      { name: 'a', content: 'two' },
    );
    assert.deepEqual(await unpack(archive), { b: 'one 444', a: 'two 444' });
  });

  const REFUSED: readonly (readonly [string, RegExp, ...Entry[]])[] = [
    ['an absolute name', /'\/etc\/passwd' is an absolute path/, { name: '/etc/passwd', content: 'x' }],
    ['an absolute name of pax', /is an absolute path/, { name: 'a', pax: { path: '/etc/x' }, content: 'x' }],
    ['a part ..', /has the part '\.\.'/, { name: 'a/../../b', content: 'x' }],
    ['a part .. of pax', /has the part '\.\.'/, { name: 'a', pax: { path: '../b' }, content: 'x' }],
    [
      'an entry behind a link',
      /'l\/x' is behind the link 'l'/,
      { name: 'd/', type: 'directory' },
      { name: 'l', type: 'symlink', linkname: 'd' },
      { name: 'l/x', content: 'x' },
    ],
    [
      'a folder that becomes a link below entries',
      /'d\/x' is behind the link 'd'/,
      { name: 'd/x', content: 'x' },
      { name: 'd', type: 'symlink', linkname: 'e' },
    ],
    [
      'a file that is a folder of another entry',
      /'f\/x' is below 'f', which is a file/,
      { name: 'f', content: 'x' },
      { name: 'f/x', content: 'x' },
    ],
    [
      'an absolute link',
      /link to the absolute path '\/etc'/,
      { name: 'l', type: 'symlink', linkname: '/etc' },
    ],
    ['a link that leads out', /leads out, to '\.\.\/x'/, { name: 'l', type: 'symlink', linkname: '../x' }],
    [
      'a link that leads out through another one',
      /'m' is a link that leads out/,
      { name: 'a/b/up', type: 'symlink', linkname: '../..' },
      { name: 'm', type: 'symlink', linkname: 'a/b/up/../x' },
    ],
    [
      'links that lead to each other',
      /too many links/,
      { name: 'a', type: 'symlink', linkname: 'b' },
      { name: 'b', type: 'symlink', linkname: 'a' },
    ],
    ['an absolute hard link', /absolute path '\/etc\/x'/, { name: 'l', type: 'link', linkname: '/etc/x' }],
    ['a hard link that leads out', /leads out, to '\.\.\/x'/, { name: 'l', type: 'link', linkname: '../x' }],
    ['a hard link to nothing', /which is no file before it/, { name: 'l', type: 'link', linkname: 'x' }],
    ['a FIFO', /is a fifo/, { name: 'p', type: 'fifo' }],
    ['a device', /is a character device/, { name: 'p', type: 'character-device' }],
    ['a block device', /is a block device/, { name: 'p', type: 'block-device' }],
    ['a file with setuid', /has setuid or setgid/, { name: 's', mode: 0o4755, content: 'x' }],
    ['a file with setgid', /has setuid or setgid/, { name: 's', mode: 0o2755, content: 'x' }],
    ['a sparse file', /is a sparse file/, { name: 's', pax: { 'GNU.sparse.realsize': '9' }, content: 'x' }],
    ['too long a name', /has too long a name/, { name: 'n'.repeat(256), content: 'x' }],
  ];
  for (const [what, message, ...entries] of REFUSED) {
    it(`is refused with ${what}`, async () => refuse(await tarOf(...entries), message));
  }

  it('drops setgid of folders', async () => {
    assert.deepEqual(await unpack(await tarOf({ name: 'd/', type: 'directory', mode: 0o2755 })), { d: '/' });
  });

  it('is refused with more than 100,000 entries', () => {
    const tree = new TarTree();
    for (let index = 0; index < 100_000; index += 1) tree.add({ name: 'd/', type: 'directory' }, index);
    assert.throws(() => tree.add({ name: 'd/', type: 'directory' }, 100_000), /more than 100000 entries/);
  });

  it('is refused when its contents have more than 1 GB and ten times its bytes, before they are read', async () => {
    const [header] = [
      (await tarOf({ name: 'big', pax: { size: '1000000001' }, content: '' })).subarray(0, 1536),
    ];
    await refuse(gzipSync(header), /contents have more than 1000000000 bytes/);
  });

  it('is refused when it asks for memory with one header', async () => {
    const tar = await tarOf({ name: 'a', content: 'x' });
    tar.write('x', 156);
    tar.write('77777777777', 124);
    rewriteChecksum(tar);
    const content = Buffer.alloc(3 * 2 ** 20, 'a');
    await refuse(Buffer.concat([tar.subarray(0, 512), content]), /a header of more than 1 MiB/);
  });

  it('is refused when it is none', async () => {
    await refuse(Buffer.from('no tar at all'.repeat(100)), /Invalid tar header|breaks off/);
    await refuse(Buffer.alloc(0), /breaks off/);
    await refuse(gzipSync('no tar at all'.repeat(100)), /Invalid tar header/);
    await refuse(Buffer.concat([Buffer.from([0x1f, 0x8b]), Buffer.alloc(100, 1)]), /no valid gzip/);
    await refuse(
      Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), Buffer.alloc(100, 1)]),
      /zstd|breaks off/,
    );
  });

  it('is refused when it breaks off, wherever', async () => {
    const tar = await tarOf({ name: 'a', content: 'x'.repeat(2000) }, { name: 'b', content: 'y' });
    for (const length of [100, 512, 1000, 2560, 3072, tar.length - 1024])
      await refuse(tar.subarray(0, length), /breaks off|Unexpected end/);
    const gzip = gzipSync(tar);
    await refuse(gzip.subarray(0, gzip.length - 12), /no valid gzip|breaks off/);
    const path = join(folder, 'whole.tar');
    writeFileSync(path, tar);
    const zstd = execFileSync('zstd', ['-qc', path]);
    await refuse(zstd.subarray(0, zstd.length - 12), /breaks off/);
  });
});

function rewriteChecksum(tar: Buffer): void {
  tar.fill(' ', 148, 156);
  const sum = tar.subarray(0, 512).reduce((total, byte) => total + byte, 0);
  tar.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
}

describe('zstd', () => {
  it('is decompressed as the program zstd does, in all its forms', async () => {
    const random = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * index * 31) % 251));
    const content = Buffer.concat([Buffer.alloc(500_000, 'a'), random, Buffer.from('end')]);
    const tar = await tarOf(
      { name: 'content', content: content.toString('latin1') },
      { name: 'small', content: 's' },
    );
    const path = join(folder, 'forms.tar');
    writeFileSync(path, tar);
    const forms = [['-1'], ['-19'], ['--no-check'], ['--ultra', '-22'], ['--long=27']].map((options) =>
      execFileSync('zstd', ['-qc', ...options, path], { maxBuffer: 2 ** 26 }),
    );
    const half = Math.floor(tar.length / 1024) * 512;
    const parts = [tar.subarray(0, half), tar.subarray(half)].map((part) =>
      execFileSync('zstd', ['-qc'], { input: part, maxBuffer: 2 ** 26 }),
    );
    const skipped = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    for (const form of [...forms, Buffer.concat([parts[0] ?? skipped, skipped, parts[1] ?? skipped])])
      assert.deepEqual(Object.keys(await unpack(form)), ['content', 'small']);
  });

  it('is refused when it asks for more memory than the program zstd would give', async () => {
    const path = join(folder, 'window.tar');
    writeFileSync(path, await tarOf({ name: 'a', content: 'x' }));
    const zstd = execFileSync('zstd', ['-qc', '--long=27'], {
      input: await tarOf({ name: 'a', content: 'x' }),
    });
    zstd.writeUInt8((28 - 10) << 3, 5);
    await refuse(zstd, /needs more than 134217728 bytes of memory/);
  });
});
