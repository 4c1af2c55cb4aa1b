import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'vitest';
import type { ArtifactSource } from '../service-api/run-artifacts.js';
import { FileServer, sha256 } from '../testing/file-server.js';
import { QUICK_CLOCK, SILENT_CLOCK } from '../testing/quick-clocks.js';
import { fetchAddresses } from './download.js';
import { fetchSources, type Fetched, type FetchParts } from './fetch-sources.js';
import { FileCache } from './file-cache.js';

const BYTES = Buffer.alloc(300_000, 'each part differs');

let folder = '';
let store: FileServer;
/** What the service says of a run that is asked for again. */
let signed: Record<string, ArtifactSource>[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'expired-'));
  store = await FileServer.start();
  store.objects.set('/data', BYTES);
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const source = (get: ArtifactSource['get']): ArtifactSource => ({
  get,
  url: null,
  sha256: null,
  isUnpacked: false,
});

function fetchAll(
  sources: Record<string, ArtifactSource>,
  getSources: FetchParts['getSources'] = async () =>
    signed.shift() ?? assert.fail('the service is not asked again'),
): Promise<Fetched> {
  const cache = new FileCache(folder, 0);
  const parts = { cache, addresses: fetchAddresses(null), clock: QUICK_CLOCK, random: () => 0, getSources };
  const log = { clock: SILENT_CLOCK, note: () => undefined };
  return fetchSources(sources, parts, log, new AbortController().signal);
}

/** Checksums of what sources put somewhere. */
async function sums({ sources }: Fetched): Promise<string[]> {
  const found: string[] = [];
  for (const one of sources)
    for await (const entry of one.entries())
      if (entry.kind === 'file') found.push(sha256(await buffer(entry.content)));
  return found;
}

describe('files of a run', () => {
  it('go on with a new URL when theirs has expired, alone or in a folder, as often as that is', async () => {
    const old = new Set<string>();
    store.onRequest = ({ url }) => {
      if (old.has(url)) return { status: old.size % 2 === 0 ? 403 : 400 };
      old.add(url);
      return old.size % 4 === 0 ? undefined : { breakAfter: 60_000 };
    };
    const file = (n: number) => ({
      url: `${store.urlOf('/data')}&n=${n}`,
      bytes: BYTES.length,
      sha256: null,
    });
    const alone = (n: number) => source(file(n));
    const only = source([{ name: 'b', ...file(10) }]);
    const listed = (n: number) =>
      source([
        { name: 'other', ...file(0) },
        { name: 'b', ...file(10 + n) },
      ]);
    for (const [first, again] of [
      [alone(0), alone],
      [only, listed],
    ] as const) {
      signed = [1, 2, 3].map((n) => ({ '/a': again(n) }));
      store.requests.length = 0;
      assert.deepEqual(await sums(await fetchAll({ '/a': first })), [sha256(BYTES)]);
      assert.deepEqual(signed, []);
      const [whole, ...resumed] = store.requests.map(({ headers }) => headers.range);
      assert.deepEqual([whole, resumed.length], [undefined, 6]);
      for (const range of resumed) assert.match(range ?? '', /^bytes=[1-9]/);
    }
  });

  it('fail the run when the store refuses a new URL as well', async () => {
    store.onRequest = () => ({ status: 403 });
    const refused = source({ url: store.urlOf('/data'), bytes: null, sha256: null });
    signed = [{ '/a': refused }];
    await assert.rejects(fetchAll({ '/a': refused }), {
      name: 'RunFault',
      message: "The file for '/a' cannot be fetched: its store answers HTTP 403",
    });
    assert.equal(store.requests.length, 2);
  });

  it('end with the run that is lost when they ask for it again', async () => {
    store.onRequest = () => ({ status: 403 });
    const lost = new Error('the run is at attempt 2');
    const refused = source({ url: store.urlOf('/data'), bytes: null, sha256: null });
    await assert.rejects(
      fetchAll({ '/a': refused }, () => Promise.reject(lost)),
      lost,
    );
  });
});
