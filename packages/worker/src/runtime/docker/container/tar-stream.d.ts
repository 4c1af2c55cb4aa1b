/** The part of tar-stream 2 that the worker uses; the package has no types of its own. */
declare module 'tar-stream' {
  import type { Readable, Writable } from 'node:stream';

  export interface Header {
    readonly name: string;
    /** Permissions. */
    readonly mode?: number;
    /** In bytes. */
    readonly size?: number;
    readonly type?: string;
    /** Extended attributes, which replace fields of the header. */
    readonly pax?: Readonly<Record<string, string>>;
    /** Target of a link. */
    readonly linkname?: string;
  }

  export interface Pack extends Readable {
    entry(header: Header, content?: string | Buffer): void;
    finalize(): void;
  }

  export interface Extract extends Writable {
    on(
      event: 'entry',
      listener: (header: Header, content: Readable, next: (error?: unknown) => void) => void,
    ): this;
    on(event: string, listener: (...values: never[]) => void): this;
  }

  export function pack(): Pack;
  export function extract(): Extract;
}
