import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { errorText } from './errors.js';
import { SettingsError } from './settings/setting.js';

/** Files of CAs in PEM, as OpenSSL, Go and Python, curl, requests and Node read them. */
const FILES = ['SSL_CERT_FILE', 'CURL_CA_BUNDLE', 'REQUESTS_CA_BUNDLE', 'NODE_EXTRA_CA_CERTS'] as const;
/** Folders of such files, with `:` between. */
const FOLDERS = 'SSL_CERT_DIR';

type Environment = Readonly<NodeJS.ProcessEnv>;

/** Whether the environment names CAs. */
export function namesOwnCa(env: Environment): boolean {
  return [...FILES, FOLDERS].some((name) => (env[name] ?? '') !== '');
}

/**
 * The CAs of the environment in PEM, beside those that Node has; undefined: it names none.
 * @throws SettingsError for a file that cannot be read
 */
export function readOwnCas(env: Environment): readonly string[] | undefined {
  if (!namesOwnCa(env)) return undefined;
  const files = FILES.flatMap((name) =>
    env[name] ? [read(name, () => readFileSync(String(env[name]), 'utf8'))] : [],
  );
  const folders = (env[FOLDERS] ?? '').split(':').filter((folder) => folder !== '');
  const inFolders = folders.flatMap((folder) =>
    read(FOLDERS, () =>
      readdirSync(folder, { withFileTypes: true })
        .filter((entry) => !entry.isDirectory())
        .map(({ name }) => readFileSync(join(folder, name), 'utf8')),
    ),
  );
  return [...rootCertificates, ...files, ...inFolders.filter((text) => text.includes('BEGIN CERTIFICATE'))];
}

function read<T>(name: string, readAll: () => T): T {
  try {
    return readAll();
  } catch (error) {
    throw new SettingsError([`${name} cannot be read: ${errorText(error)}`]);
  }
}

/** Codes of certificates whose issuer is not known. */
const UNKNOWN_ISSUER: ReadonlySet<unknown> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/** What to do about an error of TLS, to follow its message; empty for others. @param error with a code */
export function ownCaHint(error: unknown): string {
  const isUnknown = error instanceof Error && 'code' in error && UNKNOWN_ISSUER.has(error.code);
  return isUnknown ? '; for an own CA, set SSL_CERT_FILE to its certificate' : '';
}
