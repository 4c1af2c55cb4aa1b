import { posix } from 'node:path';

/** What is at a path whose folders are no links. */
export type Found =
  | { readonly kind: 'missing' | 'folder' | 'file' | 'other' }
  /** @property target absolute, or relative to the folder of the link */
  | { readonly kind: 'link'; readonly target: string };

export type Lookup = (path: string) => Promise<Found>;

/** Where a path leads to. */
export interface Followed {
  /** Without links. */
  readonly place: string;
  /** `blocked`: something that is no folder is at `place`, before the end of the path. */
  readonly kind: Exclude<Found['kind'], 'link'> | 'blocked';
  /** The first link that the path passes, or is; null: none. */
  readonly link: string | null;
}

/** As many as the kernel follows. */
const MAX_LINKS = 40;

/** Follows an absolute path part by part. @throws Error when it has too many links */
export async function follow(path: string, lookup: Lookup): Promise<Followed> {
  let rest = partsOf(path);
  let place = '/';
  let link: string | null = null;
  let kind: Found['kind'] = 'folder';
  for (let links = 0; ;) {
    const [part, ...more] = rest;
    if (part === undefined) return { place, kind, link };
    const next = posix.join(place, part);
    // Of a folder without links, `..` is what its path says.
    const found: Found = part === '..' ? { kind: 'folder' } : await lookup(next);
    if (found.kind === 'missing') return { place: posix.join(next, ...more), kind: 'missing', link };
    if (found.kind === 'link') {
      link ??= next;
      if ((links += 1) > MAX_LINKS) throw new Error(`the path has too many links: ${path}`);
      rest = [...partsOf(found.target), ...more];
      if (posix.isAbsolute(found.target)) place = '/';
      continue;
    }
    if (found.kind !== 'folder' && more.length > 0) return { place: next, kind: 'blocked', link };
    ({ kind } = found);
    place = next;
    rest = more;
  }
}

function partsOf(path: string): string[] {
  return path.split('/').filter((part) => part !== '' && part !== '.');
}
