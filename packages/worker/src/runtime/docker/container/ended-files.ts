import { Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import type { EndedFiles } from '../../runtime.js';
import { tarEntries } from '../../tar-entries.js';
import { engineStatus, withLimit } from '../engine/docker-engine.js';
import { follow, type Found, type Lookup } from '../places/follow.js';
import { lookupIn } from '../places/look-up.js';

/** The files of a container in which nothing changes any more. @param callMs until the engine answers, in milliseconds */
export function endedFiles(container: Dockerode.Container, callMs: number): EndedFiles {
  const lookup = lookupIn(container, callMs);
  const known = new Map<string, Promise<Found>>();
  // Many files have the same folders.
  const once: Lookup = (path) => {
    const asked = known.get(path) ?? lookup(path);
    known.set(path, asked);
    return asked;
  };
  const archiveOf = (path: string): Promise<Readable> =>
    withLimit(callMs, 'archive', async (abortSignal) => {
      const stream = await container.getArchive({ path, abortSignal });
      return stream instanceof Readable ? stream : new Readable().wrap(stream);
    });
  return {
    open: async (path) => {
      if (!(await isThere(path, 'file', once))) return null;
      const archive = await archiveOf(path).catch(noneIfMissing);
      if (archive === null) return null;
      const entries = tarEntries(archive);
      const { value: entry } = await entries.next();
      if (entry === undefined || entry.header.type !== 'file') {
        await entries.return(undefined);
        return null;
      }
      const { content } = entry;
      content.once('close', () => {
        archive.destroy();
        void entries.return(undefined);
      });
      return { bytes: entry.header.size ?? 0, content };
    },
    list: async function* (folder) {
      if (folder !== '/' && !(await isThere(folder, 'folder', once))) return;
      const archive = await archiveOf(folder).catch(noneIfMissing);
      if (archive === null) return;
      for await (const { header } of tarEntries(archive)) {
        // The engine gives further names of one file as links to the first.
        if (header.type !== 'file' && header.type !== 'link') continue;
        const parts = header.name.split('/').filter((part) => part !== '' && part !== '.');
        yield parts.slice(folder === '/' ? 0 : 1).join('/');
      }
    },
  };
}

/** Whether something of the kind is there, and no part of the path is a link. */
async function isThere(path: string, kind: Found['kind'], lookup: Lookup): Promise<boolean> {
  const found = await follow(path, lookup);
  return found.link === null && found.kind === kind;
}

function noneIfMissing(error: unknown): null {
  if (engineStatus(error) === 404) return null;
  throw error;
}
