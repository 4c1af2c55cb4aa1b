import type { Header } from 'tar-stream';
import { BrokenTar } from '../../runtime/tar-entries.js';

/** What is at a path of an archive in the end. */
export type TarNode =
  | { readonly kind: 'folder' }
  /** @property index of the entry with its content */
  | { readonly kind: 'file'; readonly index: number; readonly mode: number }
  | { readonly kind: 'link'; readonly target: string };

const MAX_ENTRIES = 100_000;
/** As the kernel takes them, in bytes. */
const MAX_NAME = 255;
const MAX_PATH = 4095;
/** As many links as the kernel follows in one path. */
const MAX_LINKS = 40;
/** Parts of the targets of all links that are looked at. */
const MAX_STEPS = 5_000_000;
const FOLDER: TarNode = { kind: 'folder' };

/** What an archive has, by path; of entries of one name the last counts. Refuses what must not be unpacked. */
export class TarTree {
  /** A folder is before what is in it. */
  readonly nodes = new Map<string, TarNode>();
  private count = 0;
  private steps = 0;

  /** @throws BrokenTar that names the entry */
  add(header: Header, index: number): void {
    this.count += 1;
    if (this.count > MAX_ENTRIES || this.nodes.size > 2 * MAX_ENTRIES)
      throw new BrokenTar(`it has more than ${MAX_ENTRIES} entries`);
    const { name } = header;
    const parts = partsOf(name, name);
    const isFolder = header.type === 'directory' || (header.type === 'file' && name.endsWith('/'));
    if (parts.length === 0) {
      if (!isFolder) throw refused(name, 'has no name');
      return;
    }
    for (const depth of parts.slice(1).keys()) this.addParent(parts.slice(0, depth + 1).join('/'), name);
    this.nodes.set(parts.join('/'), isFolder ? FOLDER : this.nodeOf(header, index));
  }

  /** Checks what only the last entry decides. @throws BrokenTar that names the entry */
  finish(): void {
    for (const [path, node] of this.nodes) {
      const at = path.lastIndexOf('/');
      const parent = at < 0 ? FOLDER : this.nodes.get(path.slice(0, at));
      if (parent?.kind === 'link') throw refused(path, `is behind the link '${path.slice(0, at)}'`);
      if (parent?.kind === 'file') throw refused(path, `is below '${path.slice(0, at)}', which is a file`);
      if (node.kind === 'link') this.checkLink(path, node.target);
    }
  }

  private addParent(path: string, name: string): void {
    const known = this.nodes.get(path);
    if (known?.kind === 'link') throw refused(name, `is behind the link '${path}'`);
    if (known === undefined) this.nodes.set(path, FOLDER);
  }

  private nodeOf({ name, type, mode = 0, linkname, pax }: Header, index: number): TarNode {
    switch (type ?? '') {
      case 'file':
      case 'contiguous-file':
        if (Object.keys(pax ?? {}).some((key) => key.startsWith('GNU.sparse.')))
          throw refused(name, 'is a sparse file');
        if ((mode & 0o6000) !== 0) throw refused(name, 'has setuid or setgid');
        return { kind: 'file', index, mode: (mode & 0o100) === 0 ? 0o444 : 0o555 };
      case 'symlink':
        if (!linkname) throw refused(name, 'is a link without a target');
        if (linkname.startsWith('/')) throw refused(name, `is a link to the absolute path '${linkname}'`);
        return { kind: 'link', target: linkname };
      case 'link': {
        const target = partsOf(linkname ?? '', name).join('/');
        const known = this.nodes.get(target);
        if (known?.kind === 'file') return known;
        throw refused(name, `is a hard link to '${target}', which is no file before it`);
      }
      default:
        throw refused(name, type ? `is a ${type.replace('-', ' ')}` : 'is of a kind that is not unpacked');
    }
  }

  /** Follows a link through other links, as the kernel would. */
  private checkLink(path: string, target: string): void {
    const place = path.split('/').slice(0, -1);
    let rest = target.split('/');
    for (let links = 1; rest.length > 0;) {
      const [part = '', ...more] = rest;
      rest = more;
      this.steps += 1 + rest.length / 16;
      if (this.steps > MAX_STEPS) throw new BrokenTar('its links have too many parts');
      if (part === '' || part === '.') continue;
      if (part === '..') {
        if (place.pop() === undefined) throw refused(path, `is a link that leads out, to '${target}'`);
        continue;
      }
      const node = this.nodes.get([...place, part].join('/'));
      if (node?.kind !== 'link') place.push(part);
      else if ((links += 1) > MAX_LINKS) throw refused(path, 'is a link through too many links');
      else rest = [...node.target.split('/'), ...rest];
    }
  }
}

/** The parts of a name in an archive. @param entry for the message */
function partsOf(name: string, entry: string): string[] {
  if (name.startsWith('/'))
    throw refused(entry, name === entry ? 'is an absolute path' : `is a link to the absolute path '${name}'`);
  const parts = name.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..'))
    throw refused(entry, name === entry ? "has the part '..'" : `is a link that leads out, to '${name}'`);
  if (Buffer.byteLength(name) > MAX_PATH || parts.some((part) => Buffer.byteLength(part) > MAX_NAME))
    throw refused(entry, 'has too long a name');
  return parts;
}

function refused(entry: string, why: string): BrokenTar {
  return new BrokenTar(`its entry '${entry.slice(0, 200)}' ${why}`);
}
