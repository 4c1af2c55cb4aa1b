import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, test } from 'vitest';
import { lazyJson, stringifyJson } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { ordinaryUser } from '../../testing/ordinary-user.js';
import { containerSpec } from '../../testing/container-spec.js';
import { readOutputFile, RunFolders } from './run-folders.js';
import { parseOutputs } from '../outputs.js';

const base = mkdtempSync(join(tmpdir(), 'longshore-folder-spec-'));
afterAll(() => rmSync(base, { recursive: true, force: true }));

const CONTENT = containerSpec('tool', { a: 1 });
const mode = (path: string): number => statSync(path).mode & 0o777;

let scratch = 0;
function outputFile(): string {
  return join(mkdtempSync(join(base, `output-${scratch++}-`)), 'output.json');
}

test("keeps a run's folder below a root that only the worker's user may enter", async () => {
  const before = process.umask(0);
  try {
    const folders = new RunFolders('rack/7:a', base);
    const folder = await folders.create(CONTENT);
    assert.equal(mode(folders.root), 0o700);
    assert.deepEqual(JSON.parse(readFileSync(join(folder.path, 'input.json'), 'utf8')), { a: 1 });
    assert.equal(readFileSync(join(folder.path, 'output.json'), 'utf8'), '');
    assert.equal(parseOutputs(await folder.readOutputs())?.outputs, undefined);
    await folder.remove();
    await folder.remove();
    assert.deepEqual(readdirSync(folders.root), []);
  } finally {
    process.umask(before);
  }
});

test('separates workers whose ids differ only in characters that file names cannot hold', () => {
  const roots = ['a/b', 'a:b', 'a-b', 'A-b'].map((id) => new RunFolders(id, base).root.toLowerCase());
  assert.equal(new Set(roots).size, 4);
});

test('gives every attempt its own folder', async () => {
  const folders = new RunFolders('unique', base);
  const paths = await Promise.all(Array.from({ length: 20 }, () => folders.create(CONTENT)));
  assert.equal(new Set(paths.map(({ path }) => path)).size, 20);
});

test('removes the folders of a previous process, and follows no link', async () => {
  const outside = join(base, 'outside');
  mkdirSync(outside);
  writeFileSync(join(outside, 'keep'), 'me');
  const folder = await new RunFolders('again', base).create(CONTENT);
  symlinkSync(outside, join(folder.path, 'link'));
  const locked = join(folder.path, 'locked', 'deep');
  mkdirSync(locked, { recursive: true });
  writeFileSync(join(locked, 'file'), '');
  chmodSync(locked, 0);
  const folders = new RunFolders('again', base);
  assert.deepEqual(await folders.removeLeftovers(), { removed: 1, kept: [] });
  assert.deepEqual(readdirSync(folders.root), []);
  assert.ok(existsSync(join(outside, 'keep')));
});

test('refuses a root folder of another user', async () => {
  const folders = new RunFolders('trapped', base);
  const elsewhere = mkdtempSync(join(base, 'elsewhere-'));
  symlinkSync(elsewhere, folders.root);
  assert.throws(() => folders.open(), /not a folder of this user's/);
  await assert.rejects(folders.create(CONTENT), /not a folder of this user's/);
  assert.deepEqual(readdirSync(elsewhere), []);
});

test('restricts the mode of its own root folder', async () => {
  const folders = new RunFolders('wide', base);
  folders.open();
  chmodSync(folders.root, 0o777);
  await folders.create(CONTENT);
  assert.equal(mode(folders.root), 0o700);
});

test('writes the template to the output file', async () => {
  const folder = await new RunFolders('template', base).create({ ...CONTENT, outputTemplate: { url: 'u' } });
  assert.deepEqual(parseOutputs(await folder.readOutputs())?.outputs, { url: 'u' });
});

test('keeps the digits and the order of inputs, template and outputs', async () => {
  const text = '{"2":1795358081062000000,"1":[1.0,1e400]}';
  const value: JsonObject = Object(lazyJson(text));
  const folder = await new RunFolders('exact', base).create({
    ...CONTENT,
    inputs: value,
    outputTemplate: value,
  });
  assert.equal(readFileSync(join(folder.path, 'input.json'), 'utf8'), text);
  assert.equal(readFileSync(join(folder.path, 'output.json'), 'utf8'), text);
  assert.equal(
    stringifyJson({ outputs: parseOutputs(await folder.readOutputs())?.outputs }),
    `{"outputs":${text}}`,
  );
});

test('reads outputs, and none from a missing, empty or blank file', async () => {
  const path = outputFile();
  assert.equal(parseOutputs(await readOutputFile(dirname(path), []))?.outputs, undefined);
  for (const [text, outputs] of [
    ['', undefined],
    [' \r\n\t', undefined],
    ['{}', {}],
    ['{"a":{"b":[1,"ü"]}}\n', { a: { b: [1, 'ü'] } }],
  ] as const) {
    writeFileSync(path, text);
    assert.deepEqual(parseOutputs(await readOutputFile(dirname(path), []))?.outputs, outputs);
  }
});

for (const text of ['[]', 'null', '"x"', '{', '{"a":1,"a":2}']) {
  test(`refuses outputs that are not a JSON object: ${text}`, async () => {
    const path = outputFile();
    writeFileSync(path, text);
    await assert.rejects(
      readOutputFile(dirname(path), []).then(parseOutputs),
      /^RunFault: The run's output file cannot be used: /,
    );
  });
}

for (const text of ['{"a":NaN}', '{"a":-Infinity}', '{"a":', 'a']) {
  test(`says that outputs are not valid JSON: ${text}`, async () => {
    const path = outputFile();
    writeFileSync(path, text);
    await assert.rejects(readOutputFile(dirname(path), []).then(parseOutputs), {
      name: 'RunFault',
      message: "The run's output file cannot be used: it is not valid JSON (NaN and Infinity are not JSON)",
    });
  });
}

test('says where a number of outputs is too long', async () => {
  const path = outputFile();
  writeFileSync(path, `{"n":${'7'.repeat(1000)},"all":[0,${'7'.repeat(1001)}]}`);
  await assert.rejects(readOutputFile(dirname(path), []).then(parseOutputs), {
    name: 'RunFault',
    message:
      "The run's output file cannot be used: number of more than 1,000 characters in /all/1 at character 1016",
  });
});

const TRICKS: Record<string, (path: string) => void> = {
  'a symbolic link': (path) => symlinkSync('/etc/passwd', path),
  'a dangling link': (path) => symlinkSync('nowhere', path),
  'a folder': (path) => mkdirSync(path),
  'a pipe': (path) => void execFileSync('mkfifo', [path]),
  'a hard link': (path) => {
    writeFileSync(`${path}.other`, '{"a":1}');
    linkSync(`${path}.other`, path);
  },
};

for (const [what, make] of Object.entries(TRICKS)) {
  test(`refuses an output file that is ${what}, without blocking`, async () => {
    const path = outputFile();
    make(path);
    await assert.rejects(readOutputFile(dirname(path), []), /no regular file|second name/);
  });
}

test('reads at most the limit of a huge output file', async () => {
  const path = outputFile();
  writeFileSync(path, '{"a":1}');
  assert.deepEqual(parseOutputs(await readOutputFile(dirname(path), [], 7))?.outputs, { a: 1 });
  await assert.rejects(readOutputFile(dirname(path), [], 6), /larger than 6 bytes/);
  truncateSync(path, 2 ** 40);
  await assert.rejects(readOutputFile(dirname(path), []), /larger than 16777216 bytes/);
});

const asNobody = ordinaryUser();

test.skipIf(typeof asNobody === 'string')(
  'goes on although an ordinary user may not remove a folder of root',
  () => {
    assert.ok(typeof asNobody !== 'string');
    const own = mkdtempSync(join(base, 'nobody-'));
    chownSync(own, asNobody.uid, asNobody.gid);
    chmodSync(base, 0o755);
    const program = `const { RunFolders } = await import(${JSON.stringify(new URL('../../../dist/runtime/process/run-folders.js', import.meta.url).href)});
      const folders = new RunFolders('w', process.argv[1]);
      const first = await folders.removeLeftovers();
      if (process.argv[2] === 'create') await folders.create(${JSON.stringify(CONTENT)});
      console.log(JSON.stringify({ ...first, root: folders.root }));`;
    const run = (...argv: string[]): { root: string; removed: number; kept: string[] } =>
      JSON.parse(
        execFileSync(process.execPath, ['--input-type=module', '-e', program, own, ...argv], {
          ...asNobody,
          cwd: '/',
          encoding: 'utf8',
        }),
      );
    const { root } = run('create');
    run('create');
    const [name = ''] = readdirSync(root);
    mkdirSync(join(root, name, 'of-root'));
    writeFileSync(join(root, name, 'of-root', 'file'), '');
    const { removed, kept } = run();
    assert.deepEqual({ removed, kept }, { removed: 0, kept: [join(root, name)] });
    assert.deepEqual(run('create').kept, kept);
    assert.deepEqual(run().removed, 1, 'the others are removed all the same');
  },
);
