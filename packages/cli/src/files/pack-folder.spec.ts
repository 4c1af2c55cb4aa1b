import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'vitest';
import { CliError, EXIT } from '../cli-error.js';
import { listFolder, packFolder } from './pack-folder.js';

let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'longshore-pack-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** Makes a folder with files. */
async function folder(name: string, files: Readonly<Record<string, string>>): Promise<string> {
  const path = join(root, name);
  await mkdir(path);
  for (const [file, content] of Object.entries(files)) {
    await mkdir(dirname(join(path, file)), { recursive: true });
    await writeFile(join(path, file), content);
  }
  return path;
}

const namesOf = async (path: string): Promise<readonly string[]> =>
  (await listFolder(path)).map(({ name }) => name);

/** Packs a folder. @returns path and checksum of the archive */
async function packed(path: string) {
  const archive = `${path}.tar.gz`;
  await packFolder(path, await listFolder(path), archive);
  return {
    archive,
    sha256: createHash('sha256')
      .update(await readFile(archive))
      .digest('hex'),
  };
}

const says = (text: RegExp) => (error: unknown) =>
  error instanceof CliError && error.exitCode === EXIT.usage && text.test(error.message);

describe('a folder that is packed', () => {
  test('has one checksum for equal content, whatever its times, and another one for another content', async () => {
    const files = { 'b.py': 'print(1)', 'a/x': '1', 'a-b': '', empty: '' };
    const [one, other] = [await folder('one', files), await folder('other', files)];
    await chmod(join(one, 'b.py'), 0o700);
    await chmod(join(other, 'b.py'), 0o775);
    await utimes(join(other, 'a/x'), 1, 1);
    await symlink('../b.py', join(one, 'a/link'));
    await symlink('../b.py', join(other, 'a/link'));
    const { archive, sha256 } = await packed(one);
    assert.equal((await packed(other)).sha256, sha256);
    await writeFile(join(other, 'a/x'), '2');
    assert.notEqual((await packed(other)).sha256, sha256);

    const listed = execFileSync('tar', ['--utc', '--numeric-owner', '-tvzf', archive], { encoding: 'utf8' });
    assert.deepEqual(
      listed
        .trimEnd()
        .split('\n')
        .map((line) => line.replaceAll(/ +/g, ' ')),
      [
        'drwxr-xr-x 0/0 0 1970-01-01 00:00 a',
        '-rw-r--r-- 0/0 0 1970-01-01 00:00 a-b',
        'lrwxr-xr-x 0/0 0 1970-01-01 00:00 a/link -> ../b.py',
        '-rw-r--r-- 0/0 1 1970-01-01 00:00 a/x',
        '-rwxr-xr-x 0/0 8 1970-01-01 00:00 b.py',
        '-rw-r--r-- 0/0 0 1970-01-01 00:00 empty',
      ],
    );
    assert.equal(execFileSync('tar', ['-xOzf', archive, 'b.py'], { encoding: 'utf8' }), 'print(1)');
  });

  test('keeps names that need more than the oldest form of tar has', async () => {
    const name = `${'d'.repeat(120)}/${'ä'.repeat(120)}`;
    const { archive } = await packed(await folder('long', { [name]: 'x' }));
    assert.equal(execFileSync('tar', ['-xOzf', archive, name], { encoding: 'utf8' }), 'x');
  });

  test('lacks .git and what .longshoreignore names, or .dockerignore where there is none', async () => {
    const files = {
      '.git/HEAD': '',
      'sub/.git': '',
      'a.log': '',
      'sub/b.log': '',
      'data/big': '',
      'data/small': '',
    };
    const rules = '# what is made\n*.log\ndata\n!data/small\n';
    const path = await folder('rules', { ...files, '.dockerignore': rules });
    assert.deepEqual(await namesOf(path), ['.dockerignore', 'data', 'data/small', 'sub', 'sub/b.log']);
    await writeFile(join(path, '.longshoreignore'), '**/*.log\ndata\n');
    assert.deepEqual(await namesOf(path), ['.dockerignore', '.longshoreignore', 'sub']);
  });

  test('is refused with a link that leads out, by itself or by others', async () => {
    for (const [name, links] of Object.entries({
      absolute: { l: '/etc/passwd' },
      above: { l: '../x' },
      deep: { 'p/q/up': '../..', l: 'p/q/up/../x' },
      circle: { l: 'm', m: 'l' },
    })) {
      const path = await folder(name, { 'p/q/file': '' });
      for (const [link, target] of Object.entries(links)) await symlink(target, join(path, link));
      await assert.rejects(listFolder(path), says(/[lm] is a link that leads out of/), name);
    }
    const path = await folder('within', { 'p/q/file': '' });
    await symlink('p/q/../q/file', join(path, 'l'));
    await symlink('nowhere', join(path, 'dangling'));
    assert.deepEqual(await namesOf(path), ['dangling', 'l', 'p', 'p/q', 'p/q/file']);
  });

  test('is refused with what is neither a file, a folder nor a link, unless that is left out', async () => {
    const path = await folder('socket', { a: '' });
    const server = createServer().listen(join(path, 's'));
    await once(server, 'listening');
    await assert.rejects(listFolder(path), says(/s is neither a file, a folder nor a link/));
    await writeFile(join(path, '.dockerignore'), 's\n');
    assert.deepEqual(await namesOf(path), ['.dockerignore', 'a']);
    server.close();
  });

  test('is refused with too many entries, and with a file that changes meanwhile', async () => {
    const path = await folder('many', { 'a/b': '', c: '' });
    assert.equal((await listFolder(path, 3)).length, 3);
    await writeFile(join(path, 'more'), '');
    await assert.rejects(listFolder(path, 3), says(/many has more than 3 files and folders/));

    const small = await folder('small', { a: 'long enough' });
    const before = await listFolder(small);
    await writeFile(join(small, 'a'), 'short');
    await assert.rejects(packFolder(small, before, `${small}.tar.gz`), says(/small\/a has changed/));
  });
});
