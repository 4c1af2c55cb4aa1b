import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { senderTo, type Send, type TestAnswer } from '../../support/app/test-app.js';
import { readPage } from '../../support/docs/doc-pages.js';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';
import { RawWorker } from '../../support/workers/raw-worker.js';

/** The requests whose files the page lists. */
const PATHS = ['create', 'claim', 'event', 'end'] as const;
type Path = (typeof PATHS)[number];

/** Where the page lists files. */
interface List {
  /** How the titles begin. */
  readonly sections: readonly string[];
  /** How the paragraphs begin that name files beside the numbered steps. */
  readonly paragraphs: RegExp;
}

const LISTS: Readonly<Record<Path, List>> = {
  create: { sections: ['Every request', 'Create:'], paragraphs: /^Also executed/ },
  claim: { sections: ['Every request', 'Claim:'], paragraphs: /^Also executed/ },
  event: { sections: ['Every request', 'Event:'], paragraphs: /^Also executed/ },
  end: { sections: ['Every request', 'Event:'], paragraphs: /^Also executed/ },
};

/** Requests of each kind before the first that counts, and the number of those that count. */
const WARM_UP = 2;
const SAMPLES = 7;

const MARK = 'executed:';

/** Loaded into the service: writes the files of `src` with a function called since the last signal, as a line. */
const COVERAGE = `
  import { Session } from 'node:inspector';
  const session = new Session();
  session.connect();
  session.post('Profiler.enable');
  session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  process.on('SIGUSR2', () => session.post('Profiler.takePreciseCoverage', (error, { result }) => {
    const executed = result.filter(({ functions }) => functions.some(({ ranges }) => ranges[0].count > 0));
    const files = executed.map(({ url }) => /[/]dist[/](src[/].*)[.]js$/.exec(url)?.[1]).filter(Boolean);
    process.stderr.write(['${MARK}', ...files.map((file) => file + '.ts')].join(' ') + '\\n');
  }));
`;

describe('the files that the page of the architecture lists', () => {
  let service: ServiceProcess;
  let send: Send;
  let executed: ReadonlyMap<Path, ReadonlySet<string>>;
  let listed: ReadonlyMap<Path, ReadonlySet<string>>;

  /** The files with a function that was called since the last time. */
  const takeCoverage = async (): Promise<string[]> => {
    const before = service.stderr.length;
    const written = (): string[] => service.stderr.slice(before).split('\n').slice(0, -1);
    const line = (): string | undefined => written().find((one) => one.startsWith(MARK));
    service.signal('SIGUSR2');
    await until(() => line() !== undefined, 'the service writes its coverage');
    const files = line() ?? assert.fail();
    return files.split(' ').slice(1);
  };

  /** What executes from the request on until the service is quiet, which is when a notice of the commit has arrived too. */
  const filesOf = async (
    request: () => Promise<TestAnswer>,
  ): Promise<{ files: Set<string>; answer: TestAnswer }> => {
    await takeCoverage();
    const answer = await request();
    assert.ok(answer.status < 300, answer.text);
    const files = new Set<string>();
    for (let more = await takeCoverage(); more.length > 0; more = await takeCoverage()) {
      for (const file of more) files.add(file);
    }
    return { files, answer };
  };

  /** One run from its creation to its end, with the files of each request, as our client and worker send them. */
  const filesOfRun = async (): Promise<Record<Path, Set<string>>> => {
    const create = await filesOf(() => send('POST', '/runs', { body: { image: 'i' }, headers: newKey() }));
    const claim = await filesOf(() => send('POST', '/workers/w/claim', { headers: newKey() }));
    const { id } = create.answer.body;
    assert.deepEqual(
      claim.answer.body.ops.map((run: { id: string }) => run.id),
      [id],
    );
    const report = (type: string, payload: object): Promise<TestAnswer> => {
      const headers = { 'X-Worker-Id': 'w', 'X-Run-Attempt': '1', Prefer: 'return=minimal', ...newKey() };
      return send('POST', `/runs/${id}/events`, { body: { type, msg: '', payload }, headers });
    };
    const event = await filesOf(() => report('STARTED', { worker_id: 'w' }));
    const end = await filesOf(() => report('COMPLETED', {}));
    return { create: create.files, claim: claim.files, event: event.files, end: end.files };
  };

  beforeAll(async () => {
    service = await startService({
      env: {
        NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(COVERAGE)}`,
        SERVICE_DEFAULT_TOPIC: 'runs',
        SERVICE_WORKER_TIMEOUT: '3600',
        SERVICE_REAPER_INTERVAL: '3600',
      },
    });
    send = senderTo(service.url, service.adminKey);
    const worker = await RawWorker.start(send, 'w', 3_600_000);
    const samples: Record<Path, Set<string>>[] = [];
    for (let run = 0; run < WARM_UP + SAMPLES; run += 1) samples.push(await filesOfRun());
    worker.end();
    executed = new Map(
      PATHS.map((path) => [path, inMost(samples.slice(WARM_UP).map((sample) => sample[path]))]),
    );
    const { text } = await readPage('docs/architecture.md');
    listed = new Map(PATHS.map((path) => [path, listedFiles(text, LISTS[path])]));
  });
  afterAll(async () => {
    assert.equal(await service.stop(), 0, service.output);
  });

  test.each(PATHS)('for %s are those that the built service executes', (path) => {
    const [does, says] = [executed.get(path) ?? assert.fail(), listed.get(path) ?? assert.fail()];
    const differences = [
      ...[...does].filter((file) => !says.has(file)).map((file) => `${file}: executed and not listed`),
      ...[...says].filter((file) => !does.has(file)).map((file) => `${file}: listed and not executed`),
    ];
    assert.equal(
      differences.toSorted().join('\n'),
      '',
      `docs/architecture.md, "Paths, file by file", ${path}`,
    );
  });
});

function newKey(): Record<string, string> {
  return { 'Idempotency-Key': randomUUID() };
}

/** Scheduled jobs fall into a few samples by chance; what belongs to the request is in nearly all. */
function inMost(samples: readonly Set<string>[]): Set<string> {
  const all = new Set(samples.flatMap((sample) => [...sample]));
  return new Set(
    [...all].filter((file) => samples.filter((sample) => sample.has(file)).length > samples.length / 2),
  );
}

/**
 * The files in the numbered steps of the sections and in their paragraphs that begin with "Also executed", for all or for
 * this path. A name without a folder is in that of the file before it.
 */
function listedFiles(page: string, { sections, paragraphs }: List): Set<string> {
  const blocks = page
    .split(/^#{2,3} /m)
    .filter((section) => sections.some((title) => section.startsWith(title)))
    .flatMap((section) => section.split('\n\n'))
    .filter((block) => block.startsWith('1. ') || paragraphs.test(block));
  const files = new Set<string>();
  for (const block of blocks) {
    let folder = '';
    for (const [, name = ''] of block.matchAll(/`([\w./-]+\.ts)`/g)) {
      if (name.includes('/')) folder = dirname(name);
      files.add(join(folder, basename(name)));
    }
  }
  return files;
}
