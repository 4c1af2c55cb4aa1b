/** The part of tar-stream 2 that the worker uses; the package has no types of its own. */
declare module 'tar-stream' {
  import type { Readable, Writable } from 'node:stream';

  export interface Header {
    readonly name: string;
    /** Permissions. */
    readonly mode?: number;
    /** In bytes. */
    readonly size?: number;
    /** Null: the package does not know it. */
    readonly type?: string | null;
    /** Extended attributes, which replace fields of the header. */
    readonly pax?: Readonly<Record<string, string>>;
    /** Target of a link. */
    readonly linkname?: string | null;
  }

  export interface Pack extends Readable {
    /** @param written called when there is room for the next one */
    entry(header: Header, content?: string | Buffer, written?: (error?: Error | null) => void): void;
    /** @returns what takes the content, of as many bytes as the header says */
    entry(header: Header, written: (error?: Error | null) => void): Writable;
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
