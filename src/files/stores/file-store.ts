/** A request that anybody who knows it may make until it expires. */
export interface SignedUrl {
  readonly method: 'GET' | 'PUT';
  readonly url: string;
  /** Headers that the request must have. */
  readonly headers: Readonly<Record<string, string>>;
  readonly expiresAt: Date;
}

export interface StoredObject {
  /** Below the prefix of the store. */
  readonly key: string;
  readonly bytes: number;
  readonly etag: string;
  /** Hexadecimal; null when the store does not know it. */
  readonly sha256: string | null;
  readonly modifiedAt: Date;
}

export interface GetOptions {
  readonly validS: number;
  /** Name of the attachment; without it the last part of the key. */
  readonly name?: string;
  readonly contentType?: string;
  /** Address to which the request for the URL came, such as `https://host:port`; a bucket ignores it. */
  readonly base?: string;
}

export interface PutOptions {
  readonly validS: number;
  /** The store takes exactly this number of bytes. */
  readonly bytes?: number;
  /** The store takes only content with this checksum; hexadecimal. */
  readonly sha256?: string;
  readonly contentType?: string;
  /** The store refuses the upload when the object exists. */
  readonly isOnce?: boolean;
  /** Address to which the request for the URL came, such as `https://host:port`; a bucket ignores it. */
  readonly base?: string;
}

export interface ListOptions {
  /** Only keys that come after this one. */
  readonly after?: string;
  readonly limit: number;
}

/** Uploads of one object in several parts. */
export interface PartUploads {
  /** @returns id of the upload */
  start(key: string, contentType?: string): Promise<string>;
  signPart(
    key: string,
    uploadId: string,
    number: number,
    options: { readonly bytes: number; readonly validS: number },
  ): Promise<SignedUrl>;
  /**
   * Makes an object of the parts; who asks again meanwhile gets the same answer.
   * @param etags in the order of the parts
   * @throws {PartsRefused} when the store does not have these parts
   */
  complete(key: string, uploadId: string, etags: readonly string[]): Promise<StoredObject>;
  /** Removes the parts; an upload that does not exist counts as removed. */
  abort(key: string, uploadId: string): Promise<void>;
}

/**
 * Objects by key, in a bucket or a folder. Every method rejects with `StoreUnavailable` when the
 * store cannot be reached or answers with an error.
 */
export interface FileStore {
  signGet(key: string, options: GetOptions): Promise<SignedUrl>;
  /** Without bytes, sha256, isOnce and contentType, the upload needs no header. */
  signPut(key: string, options: PutOptions): Promise<SignedUrl>;
  /** @returns undefined when the object does not exist */
  head(key: string): Promise<StoredObject | undefined>;
  /** Removes objects; those that do not exist count as removed. */
  remove(keys: readonly string[]): Promise<void>;
  /** Objects in the order of their keys. */
  list(prefix: string, options: ListOptions): Promise<readonly StoredObject[]>;
  /** Content of a small object of the service, such as `.longshore`. */
  read(key: string): Promise<string | undefined>;
  write(key: string, text: string): Promise<void>;
  /**
   * Ends uploads below a prefix. A folder refuses those that end later; a bucket cannot, so that
   * its readers compare ETags. Repeating it changes nothing.
   */
  seal(prefix: string): Promise<void>;
  /** Undefined when the store takes no parts. */
  readonly parts?: PartUploads;
  /** Key of the object that a URL of this store addresses; its signature is not checked. */
  keyOf(url: URL): string | undefined;
  /** Rejects when the store cannot be used. */
  probe(): Promise<void>;
}
