import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { MemoryLog } from '@longshore/worker/testing/container-spec';
import { FakeClock } from '@longshore/worker/testing/fake-clock';
import { ScriptedApi, status } from '../../testing/scripted-api.js';
import { RELIST_MS, ResourceWatch, WATCH_SECONDS } from './resource-watch.js';

const PATH = '/api/v1/namespaces/n/pods';

interface Thing {
  readonly metadata: { readonly name?: string; readonly resourceVersion: string };
}

const thing = (name: string, resourceVersion: string): Thing => ({ metadata: { name, resourceVersion } });
const page = (version: string, ...items: readonly Thing[]) => ({
  body: { metadata: { resourceVersion: version }, items },
});
const event = (type: string, object: object) => `${JSON.stringify({ type, object })}\n`;

describe('a list and watch', () => {
  const scripted = ScriptedApi.forEachTest();
  let stop: AbortController;
  let clock: FakeClock;
  let following: Promise<void> = Promise.resolve();
  let seen: string[];
  /** Watches that are open, the newest one last. */
  let watches: { readonly response: ServerResponse; readonly version: string | undefined }[];

  beforeEach(() => {
    stop = new AbortController();
    clock = new FakeClock();
    seen = [];
    watches = [];
  });

  afterEach(async () => {
    stop.abort();
    await following;
  });

  /** Lists are answered in this order; every watch stays open. */
  async function start(...lists: readonly [{ body: object }, ...{ body: object }[]]): Promise<void> {
    const remaining = [...lists];
    scripted.on(`GET ${PATH}`, (response, { query }) => {
      if (query['watch'] === 'true') {
        response.writeHead(200).flushHeaders();
        watches.push({ response, version: query['resourceVersion'] });
        return;
      }
      const next = remaining.length > 1 ? remaining.shift() : remaining[0];
      response.end(JSON.stringify(next?.body));
    });
    const names = (items: readonly Thing[]) => items.map(({ metadata }) => metadata.name).join('+');
    const watch = new ResourceWatch<Thing>({
      api: scripted.api,
      path: PATH,
      labelSelector: 'a=b',
      clock,
      log: new MemoryLog(),
      listener: {
        onList: (items) => seen.push(`list ${names(items)}`),
        onChange: (item) => seen.push(`change ${names([item])}`),
        onDelete: (item) => seen.push(`delete ${names([item])}`),
      },
    });
    following = watch.follow(await watch.list(stop.signal), stop.signal);
    await untilWatches(1);
  }

  const untilWatches = (count: number) => clock.until(`${count} watches`, () => watches.length >= count, 100);
  const untilSeen = (count: number) => clock.until(`${count} changes`, () => seen.length >= count);

  function newest(): ServerResponse {
    const last = watches.at(-1)?.response;
    assert.ok(last);
    return last;
  }

  it('reads all pages of the list, then the changes after it', async () => {
    await start(
      { body: { metadata: { resourceVersion: '5', continue: 'more' }, items: [thing('a', '1')] } },
      page('5', thing('b', '2')),
    );
    const [first, second, watch] = scripted.calls.map(({ query }) => query);
    assert.deepEqual(first, { labelSelector: 'a=b', limit: '500' });
    assert.deepEqual(second, { labelSelector: 'a=b', limit: '500', continue: 'more' });
    assert.deepEqual(watch, {
      labelSelector: 'a=b',
      watch: 'true',
      resourceVersion: '5',
      allowWatchBookmarks: 'true',
      timeoutSeconds: String(WATCH_SECONDS),
    });
    newest().write(event('ADDED', thing('c', '6')) + event('MODIFIED', thing('a', '7')).slice(0, 9));
    await untilSeen(2);
    newest().write(event('MODIFIED', thing('a', '7')).slice(9) + event('DELETED', thing('b', '8')));
    await untilSeen(4);
    assert.deepEqual(seen, ['list a+b', 'change c', 'change a', 'delete b']);
  });

  it('continues after the end of a watch where it was, bookmarks included', async () => {
    await start(page('5'));
    newest().end(event('ADDED', thing('c', '6')) + event('BOOKMARK', { metadata: { resourceVersion: '9' } }));
    await untilWatches(2);
    assert.equal(watches.at(-1)?.version, '9');
    assert.deepEqual(seen, ['list ', 'change c']);
  });

  it('lists again when a watch says that its version is too old', async () => {
    await start(page('5', thing('a', '1')), page('50', thing('b', '40')));
    newest().write(event('ERROR', status(410, 'Expired', 'too old resource version').body));
    await untilWatches(2);
    assert.deepEqual(seen, ['list a', 'list b']);
    assert.equal(watches.at(-1)?.version, '50');
  });

  it('lists again after a connection that broke', async () => {
    await start(page('5', thing('a', '1')), page('6'));
    newest().destroy();
    await untilWatches(2);
    assert.deepEqual(seen, ['list a', 'list ']);
  });

  it('lists again when the API server refuses a watch or a list', async () => {
    await start(page('5'), page('7'));
    const before = watches.length;
    let refusals = 0;
    scripted.on(`GET ${PATH}`, (response, { query }) => {
      refusals += 1;
      if (refusals <= 2) response.writeHead(410).end('{}');
      else if (query['watch'] === 'true') {
        response.writeHead(200).flushHeaders();
        watches.push({ response, version: query['resourceVersion'] });
      } else response.end(JSON.stringify(page('7').body));
    });
    newest().end();
    await untilWatches(before + 1);
    assert.equal(watches.at(-1)?.version, '7');
    assert.deepEqual(seen, ['list ', 'list ']);
  });

  it('gives up a watch that stays silent beyond its end, and lists again', async () => {
    await start(page('5', thing('a', '1')), page('6', thing('b', '2')));
    await clock.pass(WATCH_SECONDS * 1000 + 14_000);
    assert.deepEqual(seen, ['list a']);
    await clock.pass(1_000);
    await untilWatches(2);
    assert.deepEqual(seen, ['list a', 'list b']);
  });

  it('lists again after five minutes, also when every watch was fine', async () => {
    await start(page('5', thing('a', '1')), page('6', thing('b', '2')));
    for (let minute = 1; minute * 60_000 < RELIST_MS; minute++) {
      await clock.pass(60_000);
      newest().end();
      await untilWatches(minute + 1);
    }
    assert.deepEqual(seen, ['list a']);
    await clock.pass(60_000);
    newest().end();
    await untilWatches(6);
    assert.deepEqual(seen, ['list a', 'list b']);
  });
});
