/** The part of tar-stream 2 that packs folders; the package has no types of its own. */
declare module 'tar-stream' {
  import type { Readable, Writable } from 'node:stream';

  export interface PackedHeader {
    readonly name: string;
    readonly type: 'file' | 'directory' | 'symlink';
    /** Permissions. */
    readonly mode: number;
    /** In bytes. */
    readonly size: number;
    readonly mtime: Date;
    /** Target of a link. */
    readonly linkname?: string;
  }

  export interface Pack extends Readable {
    /** @returns what takes the content, of as many bytes as the header says */
    entry(header: PackedHeader, written: (error?: Error | null) => void): Writable;
    finalize(): void;
  }

  export function pack(): Pack;
}
