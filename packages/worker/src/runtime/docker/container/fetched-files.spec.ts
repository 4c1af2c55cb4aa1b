import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import type Dockerode from 'dockerode';
import { describe, it } from 'vitest';
import { CONTAINER_TIMING } from './docker.container.js';
import { containerSpec } from '../../../testing/container-spec.js';
import { tarEntries } from '../../tar-entries.js';
import type { FetchedEntry, FetchedSource } from '../../runtime.js';
import { putFetched } from './fetched-files.js';

const file = (path: string, content: string, mode = 0o444): FetchedEntry => ({
  kind: 'file',
  path,
  mode,
  bytes: content.length,
  content: Readable.from([Buffer.from(content)]),
});

/** What an engine gets for sources: each path with its kind, mode, owner and content. */
async function put(
  user: string | null,
  ...fetched: readonly FetchedSource[]
): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const container = {
    putArchive: async (archive: Readable, { path }: { path: string }) => {
      const whole = await buffer(archive);
      for await (const { header, content } of tarEntries(Readable.from([whole]))) {
        const { type, mode = 0, pax, linkname } = header;
        const owner = pax === undefined ? '' : ` ${pax['uid'] ?? ''}:${pax['gid'] ?? ''}`;
        const shown = type === 'file' ? await text(content) : (linkname ?? '');
        found[`${path}${header.name}`] = `${type} ${mode.toString(8)}${owner} ${shown}`;
      }
    },
  };
  const spec = { ...containerSpec('i'), user, artifacts: { fetched, folders: [] } };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the one call of a container
  await putFetched(container as unknown as Dockerode.Container, spec, CONTAINER_TIMING);
  return found;
}

describe('files that are put into a container', () => {
  it('are those of their sources, of the user of the run', async () => {
    const found = await put(
      '1000:2000',
      { path: '/data/a', kind: 'file', entries: () => Readable.from([file('', 'content')]) },
      {
        path: '/app',
        kind: 'folder',
        entries: () =>
          Readable.from([
            { kind: 'folder', path: 'src' },
            file('src/run', 'x', 0o555),
            file('empty', ''),
            { kind: 'same', path: 'same', as: 'src/run', mode: 0o555 },
            { kind: 'link', path: 'l', target: 'src/run' },
          ]),
      },
    );
    assert.deepEqual(found, {
      '/data/a': 'file 444 1000:2000 content',
      '/app': 'directory 755 1000:2000 ',
      '/app/src': 'directory 755 1000:2000 ',
      '/app/src/run': 'file 555 1000:2000 x',
      '/app/empty': 'file 444 1000:2000 ',
      '/app/same': 'link 555 1000:2000 app/src/run',
      '/app/l': 'symlink 777 1000:2000 src/run',
    });
  });

  it('of no user are read by every user, and folders are open to all', async () => {
    assert.deepEqual(
      await put(null, { path: '/in', kind: 'folder', entries: () => Readable.from([file('a', 'content')]) }),
      {
        '/in': 'directory 1777 ',
        '/in/a': 'file 444 content',
      },
    );
  });
});
