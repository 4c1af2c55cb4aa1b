import { readFileSync } from 'node:fs';
import { errorCode, errorText } from '@longshore/common/errors';
import { arePlainParts } from '@longshore/common/path-parts';

/** A folder of this machine, or one that several machines mount. */
export interface FolderAddress {
  readonly kind: 'folder';
  readonly path: string;
}

/** A bucket of S3, or of a store that speaks its protocol. */
export interface BucketAddress {
  readonly kind: 'bucket';
  readonly bucket: string;
  /** Begins the key of every object; empty, or ends in `/`. */
  readonly prefix: string;
  /** Origin of the requests of the service. */
  readonly endpoint: string;
  /** Origin of the URLs that are given out. */
  readonly publicEndpoint: string;
  readonly region: string;
  readonly isPathStyle: boolean;
}

export type StoreAddress = { readonly kind: 'none' } | FolderAddress | BucketAddress;

/** What a store by name may be used for. */
export const STORE_MODES = ['ro', 'rw'] as const;
export type StoreMode = (typeof STORE_MODES)[number];

/** An entry of SERVICE_FILES_STORES. */
export interface NamedStoreAddress {
  readonly name: string;
  readonly address: BucketAddress;
  readonly mode: StoreMode;
  /** Undefined: the keys of the AWS variables. */
  readonly credentialsFile: string | undefined;
}

/** Settings that say which stores there are. */
export interface StoreSettings {
  readonly filesUrl: string | undefined;
  readonly filesStores: string | undefined;
  readonly databaseUrl: string | undefined;
}

/** Keys of an account of S3. */
export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string | undefined;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const REGION = /^[a-z0-9][a-z0-9-]{0,63}$/;
const OF_BUCKETS: readonly string[] = ['endpoint', 'region', 'path_style', 'public_endpoint'];
const OF_NAMED_STORES: readonly string[] = [...OF_BUCKETS, 'mode', 'credentials_file'];

/** Reads the text of SERVICE_FILES_URL. @throws Error that says what is wrong, fit to follow a colon */
export function parseStoreUrl(text: string): StoreAddress {
  if (text === 'none') return { kind: 'none' };
  if (text.startsWith('file:')) return { kind: 'folder', path: pathOf(text) };
  return parseBucket(text, OF_BUCKETS).address;
}

/** Reads the text of SERVICE_FILES_STORES. @throws Error that names the entry */
export function parseNamedStores(text: string): NamedStoreAddress[] {
  const stores = text.split(',').map((entry, index) => parseNamedStore(entry.trim(), index + 1));
  for (const [index, { name }] of stores.entries()) {
    if (stores.findIndex((other) => other.name === name) < index) throw new Error(`${name} is there twice`);
  }
  return stores;
}

/** Names of the stores that runs may name; there are none without a main store. */
export function storeNamesOf({ filesUrl, filesStores, databaseUrl }: StoreSettings): string[] {
  const hasMain = filesUrl === undefined ? databaseUrl === undefined : filesUrl !== 'none';
  return hasMain && filesStores !== undefined ? parseNamedStores(filesStores).map(({ name }) => name) : [];
}

/** Origin of the URLs of the main store that are given out; undefined: the service serves the files itself, or there are none. */
export function publicOriginOf({ filesUrl }: Pick<StoreSettings, 'filesUrl'>): string | undefined {
  const address = filesUrl === undefined ? undefined : parseStoreUrl(filesUrl);
  return address?.kind === 'bucket' ? hostOf(address, address.publicEndpoint).origin : undefined;
}

/** The host of a bucket's objects. @param endpoint origin of the store */
export function hostOf({ bucket, isPathStyle }: BucketAddress, endpoint: string): URL {
  const url = new URL(endpoint);
  if (!isPathStyle) url.host = `${bucket}.${url.host}`;
  return url;
}

function parseNamedStore(entry: string, position: number): NamedStoreAddress {
  const end = entry.indexOf('=');
  const name = end < 0 ? '' : entry.slice(0, end);
  if (!NAME.test(name)) {
    throw new Error(
      `entry ${position} does not begin with NAME=: 1 to 128 letters, digits and . _ -, starting with a letter or digit`,
    );
  }
  try {
    const { address, parameters } = parseBucket(entry.slice(end + 1), OF_NAMED_STORES);
    const mode = STORE_MODES.find((known) => known === (parameters.get('mode') ?? 'ro'));
    if (mode === undefined) throw new Error('mode is not ro or rw');
    const credentialsFile = parameters.get('credentials_file') ?? undefined;
    if (credentialsFile !== undefined) readCredentials(credentialsFile);
    return { name, address, mode, credentialsFile };
  } catch (error) {
    throw new Error(`${name}: ${errorText(error)}`, { cause: error });
  }
}

function pathOf(text: string): string {
  const rest = text.slice('file:'.length);
  if (rest.startsWith('//') && !rest.startsWith('///')) throw new Error('the folder is not of this machine');
  const path = rest.replace(/^\/{3}/, '/');
  if (path === '' || !/^\P{Cc}+$/u.test(path))
    throw new Error('file: is not followed by the path of a folder');
  return path;
}

function parseBucket(
  text: string,
  known: readonly string[],
): { readonly address: BucketAddress; readonly parameters: URLSearchParams } {
  const [, bucket = '', path = '', query = ''] =
    /^s3:\/\/([^/?#]*)(\/[^?#]*)?(?:\?([^#]*))?$/.exec(text) ?? [];
  if (!BUCKET.test(bucket)) throw new Error('it does not begin with s3:// and the name of a bucket');
  const parameters = new URLSearchParams(query);
  for (const name of parameters.keys()) {
    if (!known.includes(name)) throw new Error(`it has the unknown parameter ${JSON.stringify(name)}`);
    if (parameters.getAll(name).length > 1) throw new Error(`it has ${name} twice`);
  }
  const region = parameters.get('region') ?? 'us-east-1';
  if (!REGION.test(region)) throw new Error('region is not the name of a region');
  const own = parameters.get('endpoint');
  const endpoint = own === null ? `https://s3.${region}.amazonaws.com` : originOf(own, 'endpoint');
  const shown = parameters.get('public_endpoint');
  const style = parameters.get('path_style') ?? String(own !== null);
  if (style !== 'true' && style !== 'false') throw new Error('path_style is not true or false');
  return {
    address: {
      kind: 'bucket',
      bucket,
      prefix: prefixOf(path),
      endpoint,
      publicEndpoint: shown === null ? endpoint : originOf(shown, 'public_endpoint'),
      region,
      isPathStyle: style === 'true',
    },
    parameters,
  };
}

function originOf(text: string, name: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isOrigin = /^https?:\/\/[^\s/?#@]+\/?$/i.test(text);
  if (url === undefined || !isOrigin)
    throw new Error(`${name} is not http:// or https:// with a host, such as https://minio.example.com:9000`);
  return url.origin;
}

function prefixOf(path: string): string {
  const prefix = decodeURIComponent(path).replace(/^\//, '').replace(/\/$/, '');
  if (prefix === '') return '';
  const isPlain = arePlainParts(prefix.split('/'));
  if (!isPlain || !/^\P{Cc}+$/u.test(prefix) || Buffer.byteLength(prefix) > 512) {
    throw new Error(
      'the prefix has a control character, more than 512 bytes, or a part that is empty, . or ..',
    );
  }
  return `${prefix}/`;
}

/** Whether two addresses have objects in common. */
export function overlap(one: StoreAddress, other: StoreAddress): boolean {
  if (one.kind !== 'bucket' || other.kind !== 'bucket' || one.bucket !== other.bucket) return false;
  const isSame = [one.endpoint, one.publicEndpoint].some((origin) =>
    [other.endpoint, other.publicEndpoint].includes(origin),
  );
  return isSame && (one.prefix.startsWith(other.prefix) || other.prefix.startsWith(one.prefix));
}

/**
 * Reads the profile `default` of a file like `~/.aws/credentials`.
 * @throws Error that says what is wrong with the file, without its content
 */
export function readCredentials(path: string): Credentials {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new Error(`the file ${path} cannot be read: ${errorCode(error)}`, { cause: error });
  }
  const values = new Map<string, string>();
  let profile = '';
  for (const line of text.split('\n')) {
    profile = /^\s*\[\s*(.*?)\s*\]/.exec(line)?.[1] ?? profile;
    const [, name = '', value = ''] = /^\s*(\w+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (profile === 'default' && name !== '') values.set(name.toLowerCase(), value);
  }
  const accessKeyId = values.get('aws_access_key_id') ?? '';
  const secretAccessKey = values.get('aws_secret_access_key') ?? '';
  if (accessKeyId === '' || secretAccessKey === '') {
    throw new Error(
      `the file ${path} has no profile [default] with aws_access_key_id and aws_secret_access_key`,
    );
  }
  return { accessKeyId, secretAccessKey, sessionToken: values.get('aws_session_token') };
}
