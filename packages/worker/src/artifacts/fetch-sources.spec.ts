import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import dns from 'node:dns';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';
import { afterEach, beforeEach, describe, it, vi } from 'vitest';
import { RunFault } from '../runtime/runtime.js';
import type { ArtifactSource } from '../service-api/run-artifacts.js';
import { FakeClock } from '../testing/fake-clock.js';
import { FileServer, sha256 } from '../testing/file-server.js';
import { QUICK_CLOCK, SILENT_CLOCK } from '../testing/quick-clocks.js';
import { fetchAddresses } from './download.js';
import { fetchSources, type Fetched } from './fetch-sources.js';
import { FileCache } from './file-cache.js';

const BYTES = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 253));
const going = new AbortController().signal;

const HAS_OPENSSL = spawnSync('openssl', ['version']).status === 0;

let folder = '';
let store: FileServer;
let cache: FileCache;
let notes: string[] = [];
const OTHERS = { clock: QUICK_CLOCK, random: () => 0, getSources: () => assert.fail() };

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'fetch-'));
  store = await FileServer.start();
  store.objects.set('/data', BYTES);
  cache = new FileCache(folder, 1_000_000);
  notes = [];
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const stored = (path: string, more: Partial<ArtifactSource> = {}): ArtifactSource => {
  const content = store.objects.get(path);
  const known =
    content === undefined
      ? { bytes: null, sha256: null }
      : { bytes: content.length, sha256: sha256(content) };
  return { get: { url: store.urlOf(path), ...known }, url: null, sha256: null, isUnpacked: false, ...more };
};

function fetchAll(
  sources: Record<string, ArtifactSource>,
  signal = going,
  networks: string | null = null,
): Promise<Fetched> {
  const parts = { cache, addresses: fetchAddresses(networks), ...OTHERS };
  return fetchSources(sources, parts, { clock: SILENT_CLOCK, note: (text) => void notes.push(text) }, signal);
}

/** What a source puts at paths: contents with modes. */
async function contents({ sources }: Fetched): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const source of sources)
    for await (const entry of source.entries()) {
      const place = join(source.path, entry.path);
      if (entry.kind !== 'file') found[place] = entry.kind;
      else found[place] = `${sha256(await buffer(entry.content))} ${entry.bytes} ${entry.mode.toString(8)}`;
    }
  return found;
}

const shown = (content: Buffer): string => `${sha256(content)} ${content.length} 444`;
const staged = (): string[] => readdirSync(join(folder, 'incoming'));
const kept = (): string[] => readdirSync(join(folder, 'by-sha256'));

describe('files of a run', () => {
  it('are fetched with their checksum, read-only, with a line of bytes and seconds', async () => {
    const fetched = await fetchAll({ '/data/a': stored('/data') });
    assert.deepEqual(await contents(fetched), { '/data/a': shown(BYTES) });
    assert.match(notes.join(), /^fetched \/data\/a: 300000 bytes in \d+\.\d s$/);
    assert.ok(!notes.join().includes('signature'));
  });

  it('go on where a connection broke, with the same version', async () => {
    let tries = 0;
    store.onRequest = () => ((tries += 1) <= 4 ? { breakAfter: 60_000 } : undefined);
    assert.deepEqual(await contents(await fetchAll({ '/a': stored('/data') })), { '/a': shown(BYTES) });
    const ranges = store.requests.map(({ headers }) => headers.range);
    assert.equal(ranges.length, 5);
    assert.ok(
      ranges.slice(1).every((range) => /^bytes=[1-9]\d*-$/.test(range ?? '')),
      ranges.join(),
    );
    assert.ok(store.requests.slice(1).every(({ headers }) => headers['if-range'] !== undefined));
  });

  it('have a line each 10 s while they are on their way', async () => {
    const clock = new FakeClock();
    let tries = 0;
    store.onRequest = () => {
      if ((tries += 1) > 1) void clock.pass(10_000);
      return tries < 4 ? { breakAfter: 60_000 } : undefined;
    };
    const parts = { cache, addresses: fetchAddresses(null), ...OTHERS };
    const log = { clock, note: (text: string) => void notes.push(text) };
    await fetchSources({ '/a': stored('/data') }, parts, log, going);
    assert.match(notes[0] ?? '', /^fetching \/a: (?:60|120|180)000 of 300000 bytes$/);
    assert.match(notes.at(-1) ?? '', /^fetched \/a: 300000 bytes in [1-3]0\.0 s$/);
  });

  it('begin again when the object was replaced meanwhile', async () => {
    const other = Buffer.from(BYTES.map((byte) => 255 - byte));
    let tries = 0;
    store.onRequest = () => {
      if ((tries += 1) > 1) store.objects.set('/data', other);
      return tries === 1 ? { breakAfter: 60_000 } : undefined;
    };
    const source = stored('/data', { get: { url: store.urlOf('/data'), bytes: null, sha256: null } });
    assert.deepEqual(await contents(await fetchAll({ '/a': source })), { '/a': shown(other) });
  });

  it('are the fault of the machine, not of the run, when the store is away five times', async () => {
    store.onRequest = () => ({ status: 503 });
    await assert.rejects(fetchAll({ '/a': stored('/data') }), (error: Error) => {
      assert.ok(!(error instanceof RunFault));
      assert.equal(error.message, "The file for '/a' could not be fetched: its store answers HTTP 503");
      return true;
    });
    assert.equal(store.requests.length, 5);
    assert.deepEqual(staged(), []);
  });

  for (const [what, source, why] of [
    ['is not there', () => stored('/none'), /'\/a' cannot be fetched: it is not there \(HTTP 404\)/],
    [
      'has another checksum',
      () => stored('/data', { sha256: 'f'.repeat(64) }),
      /its checksum is [0-9a-f]{64}, not f{64}/,
    ],
    [
      'has more bytes',
      () => stored('/data', { get: { url: store.urlOf('/data'), bytes: 5, sha256: null } }),
      /it has more than 5 bytes/,
    ],
    [
      'has fewer bytes',
      () => stored('/data', { get: { url: store.urlOf('/data'), bytes: 300_001, sha256: null } }),
      /it has 300000 bytes, not 300001/,
    ],
    ['has no URL', () => stored('/data', { get: null }), /the service has given no URL/],
  ] as const) {
    it(`fail the run when one ${what}, without another try`, async () => {
      await assert.rejects(fetchAll({ '/a': source() }), (error: Error) => {
        assert.ok(error instanceof RunFault, error.message);
        assert.match(error.message, why);
        assert.ok(!error.message.includes('signature'));
        return true;
      });
      assert.ok(store.requests.length <= 1);
      assert.deepEqual(staged(), []);
    });
  }

  it('of a folder are below its path, in folders of their own', async () => {
    store.objects.set('/one', Buffer.from('1'));
    const get = ['a/b/one', 'two'].map((name) => ({
      name,
      url: store.urlOf('/one'),
      bytes: 1,
      sha256: null,
    }));
    const found = await contents(await fetchAll({ '/in': stored('/one', { get }) }));
    const one = shown(Buffer.from('1'));
    assert.deepEqual(found, { '/in/a': 'folder', '/in/a/b': 'folder', '/in/a/b/one': one, '/in/two': one });
    const bad = stored('/one', { get: [{ name: '../x', url: store.urlOf('/one'), bytes: 1, sha256: null }] });
    await assert.rejects(fetchAll({ '/in': bad }), RunFault);
  });

  it('of an archive are below its path, and none of it is put anywhere when it must not be unpacked', async () => {
    const archive = pack();
    archive.entry({ name: 'x.txt' }, 'content');
    archive.finalize();
    store.objects.set('/tar', await buffer(archive));
    const found = await contents(await fetchAll({ '/app': stored('/tar', { isUnpacked: true }) }));
    assert.deepEqual(found, { '/app/x.txt': shown(Buffer.from('content')) });
    await assert.rejects(fetchAll({ '/app': stored('/data', { isUnpacked: true }) }), {
      name: 'RunFault',
      message: /^The file for '\/app' cannot be unpacked: /,
    });
  });

  it('end with the run that wanted them', async () => {
    const stop = new AbortController();
    store.onRequest = () => {
      setTimeout(() => stop.abort(new Error('stopped')), 10);
      return { breakAfter: 10 };
    };
    await assert.rejects(fetchAll({ '/a': stored('/data'), '/b': stored('/data') }, stop.signal), /stopped/);
    assert.deepEqual(staged(), []);
  });
});

describe('the cache', () => {
  it('gives a file that a run has fetched to the next one, and fetches it once for several at a time', async () => {
    await Promise.all([1, 2, 3].map(async () => (await fetchAll({ '/a': stored('/data') })).release()));
    assert.equal(store.requests.length, 1);
    const later = new FileCache(folder, 1_000_000);
    cache = later;
    assert.deepEqual(await contents(await fetchAll({ '/b': stored('/data') })), { '/b': shown(BYTES) });
    assert.equal(store.requests.length, 1);
  });

  it('fetches again what was changed on the disk', async () => {
    await (await fetchAll({ '/a': stored('/data') })).release();
    const path = join(folder, 'by-sha256', sha256(BYTES));
    assert.equal(statSync(path).mode & 0o777, 0o400);
    chmodSync(path, 0o600);
    writeFileSync(path, 'changed');
    assert.deepEqual(await contents(await fetchAll({ '/a': stored('/data') })), { '/a': shown(BYTES) });
    assert.equal(store.requests.length, 2);
  });

  it('keeps its budget: the least recently used goes first, and nothing that a run uses', async () => {
    for (const name of ['/1', '/2', '/3', '/4'])
      store.objects.set(name, Buffer.concat([BYTES, Buffer.from(name)]));
    const used = await fetchAll({ '/1': stored('/1') });
    for (const name of ['/2', '/3', '/2', '/4']) await (await fetchAll({ [name]: stored(name) })).release();
    const names = ['/1', '/2', '/4'].map((name) => sha256(store.objects.get(name) ?? ''));
    assert.deepEqual(kept().toSorted(), names.toSorted());
    assert.equal(Object.keys(await contents(used)).length, 1);
    await used.release();
    assert.equal(kept().length, 3);
  });

  it('of 0 GB keeps nothing, and a run has its files all the same until they are copied', async () => {
    cache = new FileCache(folder, 0);
    const fetched = await fetchAll({ '/a': stored('/data') });
    assert.deepEqual(await contents(fetched), { '/a': shown(BYTES) });
    await fetched.release();
    assert.deepEqual([staged(), kept()], [[], []]);
  });

  it('removes what a process has left half done', async () => {
    await cache.open();
    writeFileSync(join(folder, 'incoming', 'half'), 'x');
    await new FileCache(folder, 0).open();
    assert.equal(existsSync(join(folder, 'incoming', 'half')), false);
  });
});

const foreign = (
  url: string,
  more: Partial<ArtifactSource> = {},
  networks: string | null = null,
): Promise<Fetched> =>
  fetchAll({ '/a': { get: null, url, sha256: 'f'.repeat(64), isUnpacked: false, ...more } }, going, networks);

describe('a URL of a user', () => {
  it('is not fetched from addresses that are not public, whatever name leads there', async () => {
    await assert.rejects(
      foreign('https://127.0.0.1:1/x'),
      /neither public nor in SERVICE_WORKER_FETCH_NETWORKS/,
    );
    await assert.rejects(foreign('http://example.com/x'), /url must be an https URL/);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- one form of the overloaded function
    vi.spyOn(dns, 'lookup').mockImplementation(((
      _name: string,
      _options: object,
      callback: (error: null, found: object[]) => void,
    ) => callback(null, [{ address: '10.0.0.1', family: 4 }])) as unknown as typeof dns.lookup);
    await assert.rejects(foreign('https://files.example.com/x'), (error: Error) => {
      assert.ok(error instanceof RunFault, error.message);
      return error.message.includes('neither public nor in SERVICE_WORKER_FETCH_NETWORKS');
    });
  });

  it.skipIf(!HAS_OPENSSL)(
    'is fetched over https from an allowed network, over five redirects at most, each of which is checked',
    async () => {
      const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
      const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
      const made = [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:prime256v1',
        '-nodes',
        '-days',
        '2',
      ];
      execFileSync('openssl', [...made, ...subject, '-keyout', key, '-out', cert], { stdio: 'ignore' });
      const server = https.createServer(
        { key: readFileSync(key), cert: readFileSync(cert) },
        ({ url = '' }, response) => {
          const [, left = ''] = /^\/hops\/(\d)$/.exec(url) ?? [];
          const next = { '/away': 'https://127.9.9.9/x', '/plain': 'http://localhost/x' }[url];
          const location = next ?? (Number(left) > 0 ? `/hops/${Number(left) - 1}` : undefined);
          response
            .writeHead(location === undefined ? 200 : 302, location === undefined ? {} : { location })
            .end('content');
        },
      );
      await once(server.listen(0, 'localhost'), 'listening');
      vi.stubEnv('SSL_CERT_FILE', cert);
      cache = new FileCache(folder, 0);
      try {
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a server that listens on a port
        const base = `https://localhost:${(server.address() as AddressInfo).port}`;
        const local = '127.0.0.1/32,::1/128';
        const sha = { sha256: sha256('content') };
        const fetched = await foreign(`${base}/hops/5`, sha, local);
        assert.deepEqual(await contents(fetched), { '/a': shown(Buffer.from('content')) });
        await assert.rejects(foreign(`${base}/hops/6`, sha, local), /more than 5 redirects/);
        await assert.rejects(
          foreign(`${base}/away`, sha, local),
          /neither public nor in SERVICE_WORKER_FETCH_NETWORKS/,
        );
        await assert.rejects(foreign(`${base}/plain`, sha, local), /must be an https URL/);
        await assert.rejects(
          foreign(`${base}/hops/0`, sha),
          /neither public nor in SERVICE_WORKER_FETCH_NETWORKS/,
        );
      } finally {
        vi.unstubAllEnvs();
        server.closeAllConnections();
        server.close();
      }
    },
  );
});
