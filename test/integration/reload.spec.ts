import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { supervise, type ReloadOptions } from '../../src/bootstrap/reload/reload-supervisor.js';

/** A service in small: writes its life into a journal, drains for a moment on SIGTERM. */
const SERVICE = `
import { appendFileSync, readFileSync } from 'node:fs';
const [journal, source] = process.argv.slice(2);
const text = readFileSync(source, 'utf8').trim();
const note = (line) => appendFileSync(journal, line + ' ' + process.pid + '\\n');
if (text === 'crash') { note('crashed'); process.exit(3); }
process.on('SIGTERM', () => {
  if (text === 'deaf') { return; }
  setTimeout(() => { note('drained ' + text); process.exit(0); }, 100);
});
setInterval(() => {}, 1000);
note('started ' + text + ' ' + (process.env.SERVICE_RELOAD_CHILD ?? 'unmarked'));
`;

/** Builds by copying, unless the source says it cannot be compiled. */
const BUILD = `
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
const text = readFileSync(process.env.SOURCE, 'utf8');
appendFileSync(process.env.JOURNAL, 'built\\n');
if (text.includes('syntax error')) { process.exit(1); }
writeFileSync(process.env.BUILT, text);
`;

describe('reloading', () => {
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
      watched: [join(folder, 'src')],
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

  async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
    const deadline = Date.now() + 30_000;
    while (!(await condition())) {
      assert.ok(
        Date.now() < deadline,
        `waited in vain; journal: ${(await lines()).join('; ')}; ${said.join('; ')}`,
      );
      await sleep(20);
    }
  }

  async function untilJournal(...expected: string[]): Promise<void> {
    await until(async () => (await lines()).join('\n').trim() === expected.join('\n'));
  }

  it('starts the service marked as a child and lets it drain when stopped', async () => {
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
    await until(async () => (await countOf('started three! 1')) > 0);
  });

  it('sees files in folders that were made later, and their removal', async () => {
    begin();
    await untilJournal('started one 1');
    const file = join(folder, 'src', 'more', 'still', 'a.txt');
    await mkdir(join(folder, 'src', 'more', 'still'), { recursive: true });
    for (const act of [
      () => writeFile(file, 'x'),
      () => appendFile(file, 'y'),
      () => rm(join(folder, 'src', 'more'), { recursive: true }),
    ]) {
      const before = await countOf('started one 1');
      await act();
      await until(async () => (await countOf('started one 1')) > before);
    }
  });

  it('sees changes after the watched folder was replaced as a whole', async () => {
    begin();
    await untilJournal('started one 1');
    await rename(join(folder, 'src'), join(folder, 'old'));
    await mkdir(join(folder, 'src', 'deep'), { recursive: true });
    await change(source, 'two');
    await until(async () => (await lines()).includes('started two 1'));
    await rm(join(folder, 'old'), { recursive: true });
    await change(source, 'three');
    await until(async () => (await lines()).includes('started three 1'));
  });

  it('takes no notice of hidden files and backups', async () => {
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

  it('waits for the next change after a crash, and says so', async () => {
    await writeFile(source, 'crash');
    begin();
    await until(() => said.length > 0);
    assert.deepEqual(said, ['the service ended (exit code 3): waiting for the next change']);
    await change(source, 'two');
    await untilJournal('crashed', 'started two 1');
  });

  it('keeps the running service when the build fails, and goes on with the next change', async () => {
    const built = join(folder, 'built.txt');
    await writeFile(built, 'one');
    begin({
      argv: [journal, built],
      build: join(folder, 'build.mjs'),
      env: { PATH: process.env['PATH'], SOURCE: source, BUILT: built, JOURNAL: journal },
    });
    await untilJournal('started one 1');
    await change(source, 'syntax error');
    await until(() => said.some((line) => line.startsWith('the build failed')));
    await untilJournal('started one 1', 'built');
    await change(source, 'two');
    await untilJournal('started one 1', 'built', 'built', 'drained one', 'started two 1');
  });

  it('ends a service that ignores SIGTERM when its time is over', async () => {
    await writeFile(source, 'deaf');
    begin({ stopGraceMs: 200 });
    await untilJournal('started deaf 1');
    await change(source, 'two');
    await untilJournal('started deaf 1', 'started two 1');
  });

  it('ends at once when nothing is running', async () => {
    await writeFile(source, 'crash');
    begin();
    await until(() => said.length > 0);
    abort.abort();
    await supervision;
  });
});

/** Entry of a service that reloads as main.ts does. */
const MAIN = `
import { readFileSync } from 'node:fs';
import { RELOAD_CHILD, runWithReload } from './bootstrap/reload/reload-supervisor.js';
if (process.env[RELOAD_CHILD] === undefined) {
  process.exit(await runWithReload(process.argv.slice(2), process.env));
}
process.on('SIGTERM', () => process.exit(0));
process.on('SIGINT', () => process.exit(0));
setInterval(() => {}, 1000);
console.log('serving ' + readFileSync(new URL('./version.js', import.meta.url), 'utf8') + ' ' + process.argv.slice(2));
`;

describe('a service started with reload', () => {
  let project: string;

  beforeEach(async () => {
    project = await mkdtemp(join(tmpdir(), 'longshore-reload-'));
    await mkdir(join(project, 'dist', 'src', 'bootstrap', 'reload'), { recursive: true });
    await writeFile(join(project, 'package.json'), '{"type":"module"}');
    await writeFile(join(project, 'dist', 'src', 'main.js'), MAIN);
    await writeFile(join(project, 'dist', 'src', 'version.js'), 'v1');
    for (const file of ['reload-supervisor.js', 'tree-watcher.js']) {
      await copyFile(
        join(import.meta.dirname, '..', '..', 'src', 'bootstrap', 'reload', file),
        join(project, 'dist', 'src', 'bootstrap', 'reload', file),
      );
    }
  });

  afterEach(() => rm(project, { recursive: true }));

  /** Starts it, lets `act` change something, and checks that both versions were served and that it ended with 0. */
  async function serves(first: string, second: string, act: () => Promise<void>): Promise<void> {
    const service = spawn(process.execPath, [join(project, 'dist', 'src', 'main.js'), '--port', '0'], {
      stdio: ['ignore', 'pipe', 'inherit'],
      detached: true,
    });
    try {
      let output = '';
      service.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
      const until = async (text: string): Promise<void> => {
        const deadline = Date.now() + 30_000;
        while (!output.includes(text)) {
          assert.ok(Date.now() < deadline, `waited in vain for ${text}: ${output}`);
          await sleep(20);
        }
      };
      await until(`serving ${first} --port,0\n`);
      await act();
      await until(`serving ${second} --port,0\n`);
      const ended = once(service, 'exit');
      // As Ctrl-C does: to the supervisor and to the service at once.
      process.kill(-(service.pid ?? assert.fail('not started')), 'SIGINT');
      assert.deepEqual(await ended, [0, null]);
    } finally {
      service.kill('SIGKILL');
    }
  }

  it('watches what is built when there are no sources', async () => {
    await serves('v1', 'v2', async () => {
      await writeFile(join(project, 'version.js'), 'v2');
      await rename(join(project, 'version.js'), join(project, 'dist', 'src', 'version.js'));
    });
  });

  it('builds anew when a source changes', async () => {
    await mkdir(join(project, 'src'));
    await mkdir(join(project, 'scripts'));
    await mkdir(join(project, 'node_modules', '@nestjs', 'cli'), { recursive: true });
    await writeFile(join(project, 'src', 'version.ts'), 'v1');
    await writeFile(
      join(project, 'scripts', 'build-if-needed.mjs'),
      `import { copyFileSync } from 'node:fs';
      copyFileSync(new URL('../src/version.ts', import.meta.url), new URL('../dist/src/version.js', import.meta.url));`,
    );
    await serves('v1', 'v3', async () => {
      await writeFile(join(project, 'version.ts'), 'v3');
      await rename(join(project, 'version.ts'), join(project, 'src', 'version.ts'));
    });
  });
});
