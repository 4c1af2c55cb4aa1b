import assert from 'node:assert/strict';
import {
  appendFile,
  copyFile,
  cp,
  mkdir,
  mkdtemp,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { supervise, type ReloadOptions } from '../../../src/bootstrap/reload.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { COMPILED, launch, PROJECT, until, type TestProcess } from '../../support/service-process.js';

/** A small service: records its start and end in a journal file and drains for 100 ms on SIGTERM. */
const SERVICE = `
import { appendFileSync, readFileSync } from 'node:fs';
const [journal, source] = process.argv.slice(2);
const text = readFileSync(source, 'utf8').trim();
const note = (line) => appendFileSync(journal, line + ' ' + process.pid + '\\n');
if (text === 'crash') { note('crashed'); process.exit(3); }
process.on('SIGTERM', () => {
  if (text === 'ignores SIGTERM') { return; }
  setTimeout(() => { note('drained ' + text); process.exit(0); }, 100);
});
setInterval(() => {}, 1000);
note('started ' + text + ' ' + (process.env.SERVICE_RELOAD_CHILD ?? 'unmarked'));
`;

/** Builds by copying; fails for a source that contains `syntax error`. */
const BUILD = `
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
const text = readFileSync(process.env.SOURCE, 'utf8');
appendFileSync(process.env.JOURNAL, 'built\\n');
if (text.includes('syntax error')) { process.exit(1); }
writeFileSync(process.env.BUILT, text);
`;

describe('the reload supervisor', () => {
  let folder: string;
  let journal: string;
  let source: string;
  let abort: AbortController;
  let supervision: Promise<void>;
  const said: string[] = [];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-reload-'));
    journal = join(folder, 'journal');
    source = join(folder, 'src', 'deep', 'source.txt');
    await mkdir(join(folder, 'src', 'deep'), { recursive: true });
    await writeFile(journal, '');
    await writeFile(join(folder, 'service.mjs'), SERVICE);
    await writeFile(join(folder, 'build.mjs'), BUILD);
    await writeFile(source, 'one');
    abort = new AbortController();
    said.length = 0;
  });

  afterEach(async () => {
    abort.abort();
    await supervision;
    await rm(folder, { recursive: true });
  });

  function begin(options: Partial<ReloadOptions> = {}): void {
    supervision = supervise({
      entry: join(folder, 'service.mjs'),
      argv: [journal, source],
      env: { PATH: process.env['PATH'] },
      project: folder,
      watched: ['src'],
      signal: abort.signal,
      say: (line) => void said.push(line),
      debounceMs: 50,
      ...options,
    });
  }

  /** Replaces a watched file in one step, so that no reader finds it half written. */
  async function change(path: string, text: string): Promise<void> {
    await writeFile(join(folder, 'next'), text);
    await rename(join(folder, 'next'), path);
  }

  async function countOf(line: string): Promise<number> {
    return (await lines()).filter((candidate) => candidate === line).length;
  }

  async function lines(): Promise<string[]> {
    // Without process ids, which only tell the lines of one process apart.
    return (await readFile(journal, 'utf8')).split('\n').map((line) => line.replace(/ \d+$/, ''));
  }

  async function untilJournal(...expected: string[]): Promise<void> {
    const text = expected.join('\n');
    await until(async () => (await lines()).join('\n').trim() === text, `the journal ${text}`);
  }

  it('starts the service with SERVICE_RELOAD_CHILD and lets it drain when stopped', async () => {
    begin();
    await untilJournal('started one 1');
    abort.abort();
    await supervision;
    await untilJournal('started one 1', 'drained one');
    assert.deepEqual(said, []);
  });

  it('restarts after the old service has drained, for a file written in place and for a replaced one', async () => {
    begin();
    await untilJournal('started one 1');
    await change(source, 'two');
    await untilJournal('started one 1', 'drained one', 'started two 1');
    await change(source, 'three');
    await untilJournal('started one 1', 'drained one', 'started two 1', 'drained two', 'started three 1');
    await appendFile(source, '!');
    await until(async () => (await countOf('started three! 1')) > 0, 'a start with the appended text');
  });

  it('restarts for files in folders created later, and for their removal', async () => {
    begin();
    await untilJournal('started one 1');
    const file = join(folder, 'src', 'more', 'still', 'a.txt');
    await mkdir(join(folder, 'src', 'more', 'still'), { recursive: true });
    for (const act of [
      () => writeFile(file, 'x'),
      () => appendFile(file, 'y'),
      () => rm(join(folder, 'src', 'more'), { recursive: true }),
    ]) {
      const count = await countOf('started one 1');
      await act();
      await until(async () => (await countOf('started one 1')) > count, 'a restart');
    }
  });

  it('restarts for changes after the watched folder was replaced', async () => {
    begin();
    await untilJournal('started one 1');
    await rename(join(folder, 'src'), join(folder, 'old'));
    await mkdir(join(folder, 'src', 'deep'), { recursive: true });
    await change(source, 'two');
    await until(async () => (await lines()).includes('started two 1'), 'a restart in the new folder');
    await rm(join(folder, 'old'), { recursive: true });
    await change(source, 'three');
    await until(async () => (await lines()).includes('started three 1'), 'a second restart');
  });

  it('ignores hidden files and backups', async () => {
    begin();
    await untilJournal('started one 1');
    await writeFile(join(folder, 'src', '.swap'), 'x');
    await writeFile(join(folder, 'src', 'source.txt~'), 'x');
    await sleep(500);
    await untilJournal('started one 1');
    assert.deepEqual(said, []);
  });

  it('restarts once for a burst of changes', async () => {
    begin({ debounceMs: 1000 });
    await untilJournal('started one 1');
    for (let n = 0; n < 20; n += 1) {
      await writeFile(join(folder, 'src', `file-${n}.txt`), 'x');
    }
    await untilJournal('started one 1', 'drained one', 'started one 1');
    assert.equal(said.length, 1);
  });

  it('reports a crash and waits for the next change', async () => {
    await writeFile(source, 'crash');
    begin();
    await until(() => said.length > 0, 'a message');
    assert.deepEqual(said, ['the service ended (exit code 3): waiting for the next change']);
    await change(source, 'two');
    await untilJournal('crashed', 'started two 1');
  });

  it('keeps the running service when the build fails, and rebuilds at the next change', async () => {
    const built = join(folder, 'built.txt');
    await writeFile(built, 'one');
    begin({
      argv: [journal, built],
      build: join(folder, 'build.mjs'),
      env: { PATH: process.env['PATH'], SOURCE: source, BUILT: built, JOURNAL: journal },
    });
    await untilJournal('started one 1');
    await change(source, 'syntax error');
    await until(() => said.some((line) => line.startsWith('the build failed')), 'a failed build');
    await untilJournal('started one 1', 'built');
    await change(source, 'two');
    await untilJournal('started one 1', 'built', 'built', 'drained one', 'started two 1');
  });

  it('kills a service that ignores SIGTERM after the timeout', async () => {
    await writeFile(source, 'ignores SIGTERM');
    begin({ stopTimeoutMs: 200 });
    await untilJournal('started ignores SIGTERM 1');
    await change(source, 'two');
    await untilJournal('started ignores SIGTERM 1', 'started two 1');
  });

  it('stops when no service is running', async () => {
    await writeFile(source, 'crash');
    begin();
    await until(() => said.length > 0, 'a message');
    abort.abort();
    await supervision;
  });
});

/** As Ctrl-C does: to the supervisor and the service at once. */
async function interrupt(service: TestProcess): Promise<void> {
  service.signal('SIGINT', 'group');
  assert.deepEqual(await service.exited, { code: 0, signal: null }, service.output);
  assert.match(service.output, /stopped/);
}

describe('the built program with --reload', () => {
  let database: TestDatabase;
  let project: string;

  beforeAll(async () => {
    database = await openTestDatabase();
  });

  afterAll(() => database.close());

  /** A project folder with a copy of the compiled service, which the test may change. */
  beforeEach(async () => {
    project = await mkdtemp(join(tmpdir(), 'longshore-reload-'));
    await copyFile(join(PROJECT, 'package.json'), join(project, 'package.json'));
    await symlink(join(PROJECT, 'node_modules'), join(project, 'node_modules'));
    for (const folder of ['src', 'migrations']) {
      await cp(join(COMPILED, folder), join(project, 'dist', folder), { recursive: true });
    }
  });

  afterEach(() => rm(project, { recursive: true }));

  function start(): Promise<TestProcess> {
    return launch(join(project, 'dist', 'src', 'main.js'), {
      args: ['--reload'],
      env: { SERVICE_PORT: '0', DATABASE_URL: database.url },
    });
  }

  const LISTENING = /listening on http/g;

  async function untilListening(service: TestProcess, times: number): Promise<void> {
    await until(
      () => (service.output.match(LISTENING)?.length ?? 0) === times,
      `start ${times} of the service`,
    );
  }

  it('restarts when a compiled file changes, and ends with 0 on SIGINT to the group', async () => {
    const service = await start();
    await untilListening(service, 1);
    assert.ok(service.output.includes(`reload: watching ${join(project, 'dist')}\n`), service.output);
    await appendFile(join(project, 'dist', 'src', 'main.js'), '\n');
    await untilListening(service, 2);
    assert.match(service.output, /reload: .*main\.js changed/);
    await interrupt(service);
  });

  it('builds and restarts when a source file changes, and ends with 0 on SIGINT to the group', async () => {
    await mkdir(join(project, 'src'));
    await mkdir(join(project, 'scripts'));
    await writeFile(join(project, 'src', 'main.ts'), '');
    await writeFile(
      join(project, 'scripts', 'build-if-needed.mjs'),
      `import { appendFileSync } from 'node:fs';
      appendFileSync(new URL('../dist/src/main.js', import.meta.url), '\\nconsole.log("rebuilt")');`,
    );
    const service = await start();
    await untilListening(service, 1);
    await appendFile(join(project, 'src', 'main.ts'), '\n');
    await untilListening(service, 2);
    assert.match(service.output, /reload: .*main\.ts changed/);
    await interrupt(service);
  });
});
