import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createSecureContext, type ConnectionOptions, type SecureVersion } from 'node:tls';
import { codeOf } from './unavailable.js';

/** How to encrypt a connection; false: not at all. */
export type TlsAttempt = ConnectionOptions | false;

export interface TlsOptions {
  /** In their order: the first that leads to a session is used. */
  readonly attempts: readonly TlsAttempt[];
  /** Whether TLS begins without asking the server. */
  readonly isDirect: boolean;
}

/** Reads a parameter of the URL, else its variable. */
export type ReadParameter = (name: string, variable: string) => string | undefined;

const MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];
/** Modes that never connect without TLS. */
const ENCRYPTED = new Set(['require', 'verify-ca', 'verify-full']);

const VERSIONS: ReadonlyMap<string, SecureVersion> = new Map([
  ['TLSv1', 'TLSv1'],
  ['TLSv1.1', 'TLSv1.1'],
  ['TLSv1.2', 'TLSv1.2'],
  ['TLSv1.3', 'TLSv1.3'],
]);

/** The roots of the system, for `sslrootcert=system`: Debian and Alpine, Red Hat, others. */
const SYSTEM_ROOTS = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/cert.pem',
];

/**
 * Reads the TLS parameters with the meaning that they have for libpq: with a root certificate, every mode that encrypts verifies
 * it, and `require` without one verifies nothing.
 * @throws TypeError for an unknown word, a combination that libpq refuses, or a file that is missing or no certificate
 */
export function readTls(read: ReadParameter): TlsOptions {
  const root = read('sslrootcert', 'PGSSLROOTCERT') ?? ownFile('root.crt');
  const isSystem = root === 'system';
  const mode = oneOf('sslmode', read('sslmode', 'PGSSLMODE') ?? (isSystem ? 'verify-full' : 'prefer'), MODES);
  if (isSystem && mode !== 'verify-full') {
    throw new TypeError(`sslmode ${mode} may not be used with sslrootcert=system (use verify-full)`);
  }
  const negotiation = oneOf('sslnegotiation', read('sslnegotiation', 'PGSSLNEGOTIATION') ?? 'postgres', [
    'postgres',
    'direct',
  ]);
  const isDirect = negotiation === 'direct';
  if (isDirect && !ENCRYPTED.has(mode)) {
    throw new TypeError(
      `sslmode ${mode} may not be used with sslnegotiation=direct (use require or a stricter mode)`,
    );
  }
  if (mode === 'disable') return { attempts: [false], isDirect };
  if (root === undefined && mode.startsWith('verify-')) {
    throw new TypeError(
      `sslmode ${mode} needs a root certificate: give sslrootcert a file, or use sslrootcert=system and verify-full`,
    );
  }
  const tls = verified(mode, root, read);
  const attempts: Readonly<Record<string, readonly TlsAttempt[]>> = {
    allow: [false, tls],
    prefer: [tls, false],
  };
  return { attempts: attempts[mode] ?? [tls], isDirect };
}

function verified(mode: string, root: string | undefined, read: ReadParameter): ConnectionOptions {
  const certificate = read('sslcert', 'PGSSLCERT') ?? ownFile('postgresql.crt');
  const key = read('sslkey', 'PGSSLKEY') ?? (certificate && ownFile('postgresql.key'));
  if (certificate !== undefined && key === undefined) throw new TypeError('sslcert needs sslkey');
  const minVersion = versionOf('ssl_min_protocol_version', read, 'PGSSLMINPROTOCOLVERSION');
  const maxVersion = versionOf('ssl_max_protocol_version', read, 'PGSSLMAXPROTOCOLVERSION');
  const passphrase = read('sslpassword', 'PGSSLPASSWORD');
  const ca = root === undefined ? undefined : readRoots(root);
  const secrets: ConnectionOptions = {
    ...(ca !== undefined && { ca }),
    ...(certificate !== undefined && { cert: readContent('sslcert', certificate) }),
    ...(key !== undefined && { key: readContent('sslkey', key) }),
    ...(passphrase !== undefined && { passphrase }),
    ...(minVersion && { minVersion }),
    ...(maxVersion && { maxVersion }),
  };
  try {
    createSecureContext(secrets);
  } catch {
    throw new TypeError('the files of sslrootcert, sslcert and sslkey do not fit, or are none');
  }
  if (root === undefined) return { ...secrets, rejectUnauthorized: false };
  return mode === 'verify-full' ? secrets : { ...secrets, checkServerIdentity: () => undefined };
}

function versionOf(name: string, read: ReadParameter, variable: string): SecureVersion | undefined {
  const word = read(name, variable);
  return word === undefined ? undefined : VERSIONS.get(oneOf(name, word, [...VERSIONS.keys()]));
}

/** Undefined: the roots that Node.js has itself. */
function readRoots(root: string): string | undefined {
  if (root !== 'system') {
    const text = readContent('sslrootcert', root);
    if (!text.includes('-----BEGIN ')) throw new TypeError(`sslrootcert ${root} holds no certificate`);
    return text;
  }
  const file = process.env['SSL_CERT_FILE'] || SYSTEM_ROOTS.find((path) => existsSync(path));
  return file === undefined ? undefined : readContent('SSL_CERT_FILE', file);
}

function readContent(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new TypeError(`${name} ${path} cannot be read: ${codeOf(error)}`, { cause: error });
  }
}

/** A file of `~/.postgresql`, where libpq looks too. */
function ownFile(name: string): string | undefined {
  const path = join(homedir(), '.postgresql', name);
  return existsSync(path) ? path : undefined;
}

function oneOf(name: string, word: string, words: readonly string[]): string {
  if (words.includes(word)) return word;
  throw new TypeError(`${name} must be one of ${words.join(', ')}`);
}
