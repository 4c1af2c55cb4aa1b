import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import ts from 'typescript';
import { bodyOf } from '../support/answer-shapes.js';
import { DocBlocks } from '../support/doc-blocks.js';
import { readPage } from '../support/doc-pages.js';
import { RunSteps } from '../support/run-steps.js';
import { PROJECT, runService, startService, type ServiceProcess } from '../support/service-process.js';
import { senderTo } from '../support/test-app.js';
import { openTestDatabase, type TestDatabase } from '../support/test-database.js';

/**
 * Compiles a file as the project's build would if it stood at a path of the project, without putting it there.
 * @returns what the compiler has to say about it
 */
async function build(path: string, code: string, outDir: string): Promise<string[]> {
  const configPath = join(PROJECT, 'tsconfig.json');
  const { options } = ts.parseJsonConfigFileContent(
    ts.readConfigFile(configPath, (name) => ts.sys.readFile(name)).config,
    ts.sys,
    PROJECT,
    { incremental: false, noEmit: false, outDir, rootDir: PROJECT },
  );
  const file = join(PROJECT, path);
  const host = ts.createCompilerHost(options);
  const read = host.readFile.bind(host);
  const exists = host.fileExists.bind(host);
  const source = host.getSourceFile.bind(host);
  host.readFile = (name) => (name === file ? code : read(name));
  host.fileExists = (name) => name === file || exists(name);
  host.getSourceFile = (name, languageOptions, ...rest) =>
    name === file
      ? ts.createSourceFile(name, code, languageOptions, true)
      : source(name, languageOptions, ...rest);
  const program = ts.createProgram([file], options, host);
  const emitted: [string, string][] = [];
  const sourceFile = program.getSourceFile(file);
  program.emit(sourceFile, (name, text) => emitted.push([name, text]));
  for (const [name, text] of emitted) {
    await mkdir(dirname(name), { recursive: true });
    await writeFile(name, text);
  }
  return [...program.getSyntacticDiagnostics(sourceFile), ...program.getSemanticDiagnostics(sourceFile)].map(
    ({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'),
  );
}

describe('a strategy made as docs/extending.md says', () => {
  let page: string;
  let blocks: DocBlocks;
  let checkout: string;
  let database: TestDatabase;
  let service: ServiceProcess;

  before(async () => {
    page = (await readPage('docs/extending.md')).text;
    blocks = await DocBlocks.read('docs/extending.md');
    database = await openTestDatabase();
    await mkdir(join(PROJECT, '.build'), { recursive: true });
    // Inside the project, so that its packages are found from there.
    checkout = await mkdtemp(join(PROJECT, '.build', 'extending-'));
  });
  after(async () => {
    await service?.kill('SIGTERM');
    await database.close();
    await rm(checkout, { recursive: true, force: true });
  });

  test('compiles against the port', async () => {
    const [, path = ''] = /`(src\/extensions\/[\w.]+\.ts)`/.exec(page) ?? [];
    assert.deepEqual(await build(path, blocks.one('', 'ts'), join(checkout, 'dist')), []);
  });

  test('is selected by the command that stands there, hands out runs, and explains itself', async () => {
    const command = blocks.one().split('\n')[1] ?? '';
    const env = Object.fromEntries([...command.matchAll(/(SERVICE_\w+)=(\S+)/g)].map(([, k, v]) => [k, v]));
    assert.deepEqual(Object.keys(env), ['SERVICE_EXTENSIONS', 'SERVICE_SCHEDULER']);
    assert.match(command, / npm start$/);
    service = await startService({ env: { ...env, DATABASE_URL: database.url }, cwd: checkout });

    const steps = new RunSteps(senderTo(service.url, service.adminKey));
    await steps.heartbeat('tagged', { tags: ['slots:2'] });
    await steps.heartbeat('plain');
    const ids: string[] = [];
    for (let i = 0; i < 4; i += 1) ids.push((await steps.create()).id);
    assert.deepEqual(
      (await steps.claim('tagged')).map((op) => op.id),
      ids.slice(0, 2),
    );
    assert.deepEqual(await steps.claim('tagged'), []);
    assert.deepEqual(
      (await steps.claim('plain')).map((op) => op.id),
      ids.slice(2, 3),
    );
    const { strategy, workers } = bodyOf(
      await steps.send('GET', `/runs/${ids[3]}/explain`),
      'RunExplanation',
    );
    assert.equal(strategy, 'slots');
    assert.deepEqual(workers.find(({ id }: { id: string }) => id === 'tagged').obstacles, [
      JSON.parse(blocks.one('', 'json')),
    ]);
    await steps.event(ids[0] ?? '', 'COMPLETED');
    assert.deepEqual(
      (await steps.claim('tagged')).map((op) => op.id),
      ids.slice(3),
    );
  });

  for (const [what, file, code, complaint] of [
    ['is not there', 'missing.js', undefined, /cannot be loaded: /],
    ['is broken', 'broken.js', 'throw new Error("no way")', /cannot be loaded: no way/],
    ['has no module', 'empty.js', 'export class Empty {}', /exports no class decorated with @Module/],
  ] as const) {
    test(`ends the start with exit code 2 when its file ${what}`, async () => {
      if (code !== undefined) await writeFile(join(checkout, file), code);
      const { code: exitCode, stderr } = await runService({
        env: { SERVICE_EXTENSIONS: file, DATABASE_URL: database.url },
        cwd: checkout,
      });
      assert.equal(exitCode, 2);
      assert.match(stderr, complaint);
      assert.ok(
        stderr.startsWith(`SERVICE_EXTENSIONS: '${file}' `) && stderr.trimEnd().split('\n').length === 1,
      );
    });
  }
});
