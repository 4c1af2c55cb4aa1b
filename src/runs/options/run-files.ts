import { hash } from 'node:crypto';
import { base64Length, fromBase64 } from '@longshore/common/binary';
import type { JsonObject } from '@longshore/common/json/json-value';
import { keyPath } from '../../common/http/validation/problems.js';
import { SECRET_NAME } from './names.js';
import { VARIABLE_NAME } from '@longshore/common/variable-names';
import { containerPathsProblem } from './container-path.js';
import { objectMapOption, type OptionDeclaration, type TextObjectShape } from './option-kinds.js';

/** A file of a run: with a content, as text or in base64, or with the value of a secret. */
export interface RunFile {
  readonly content?: string;
  readonly content_base64?: string;
  readonly secret?: string;
  /** The variable that gets the path. */
  readonly env?: string;
  /** Permissions in octal digits. */
  readonly mode?: string;
}

type RunFiles = Readonly<Record<string, RunFile>>;

const MAX_BYTES = 64 * 1024;
const MAX_BYTES_TOGETHER = 256 * 1024;

const SHAPE: TextObjectShape = {
  content: {
    max: MAX_BYTES,
    about: 'Text of the file: at most 64 KiB of UTF-8. Either this, `content_base64` or `secret`.',
    example: '#!/bin/sh\necho hello\n',
  },
  content_base64: {
    max: base64Length(MAX_BYTES),
    about: 'Bytes of the file, at most 64 KiB, in base64 with padding and without line breaks.',
    example: 'MIIKPAIBAzCC',
  },
  secret: {
    ...SECRET_NAME,
    about: 'Name of a secret of kind `opaque`, whose value the file has.',
    example: 'gcp-key',
  },
  env: {
    ...VARIABLE_NAME,
    about: 'Environment variable that gets the path; in neither `env` nor `secrets`.',
    example: 'KEY_FILE',
  },
  mode: {
    pattern: /^0?[0-7]{3}$/,
    form: 'permissions of 3 octal digits, with or without a 0 before them',
    about: 'Permissions in octal digits. Default: 0444.',
    example: '0555',
  },
};

/** What lists of runs show instead of the content. */
const LISTED = {
  size: { type: 'integer', description: 'Bytes of the content, decoded, in lists of runs instead of it.' },
  sha256: { type: 'string', description: 'SHA-256 of these bytes, in lists of runs instead of the content.' },
};

/** Files that are put into the container before its start. */
export const FILES: OptionDeclaration<RunFiles> = objectMapOption<RunFile>(
  SHAPE,
  { max: 20, listed: LISTED },
  {
    texts: {
      request:
        'Files that the container finds, by absolute path: at most 20, and 256 KiB of content together. A path has at most 512 ' +
        'characters, is not in `/longshore`, `/proc`, `/sys` or `/dev`, and in none of the others.',
      answer: 'Files of the container by path; lists of runs show size and SHA-256 instead of the content.',
      claim: 'Files of the container by path; absent without any.',
    },
    example: { '/etc/job/run.sh': { content: '#!/bin/sh\necho hello\n', mode: '0555' } },
    capabilities: ['files'],
    problem: filesProblem,
    list: (files) => Object.fromEntries(Object.entries(files).map(([path, file]) => [path, toListed(file)])),
  },
);

function filesProblem(files: RunFiles, all: object, at: string): string | undefined {
  const wrongPath = containerPathsProblem(Object.keys(files), at);
  if (wrongPath !== undefined) return wrongPath;
  const taken = new Set(['env', 'secrets'].flatMap((name) => Object.keys(Object(Reflect.get(all, name)))));
  let bytes = 0;
  for (const [path, file] of Object.entries(files)) {
    const { content, content_base64: base64, secret, env } = file;
    const fileAt = keyPath(at, path);
    if ([content, base64, secret].filter((one) => one !== undefined).length !== 1)
      return `${fileAt} must have one of content, content_base64 and secret`;
    const decoded = contentOf(file);
    if (decoded === null)
      return `${fileAt}.content_base64 must be base64 with padding and without line breaks`;
    const size = decoded?.length ?? 0;
    const member = base64 === undefined ? 'content' : 'content_base64';
    if (size > MAX_BYTES) return `${fileAt}.${member} must have at most ${MAX_BYTES} bytes`;
    bytes += size;
    if (env === undefined) continue;
    if (taken.has(env)) return `${fileAt}.env must not be in env, in secrets or of another file as well`;
    taken.add(env);
  }
  return bytes > MAX_BYTES_TOGETHER
    ? `${at} must have at most ${MAX_BYTES_TOGETHER} bytes of content together`
    : undefined;
}

function toListed(file: RunFile): JsonObject {
  const bytes = contentOf(file);
  const { content: _text, content_base64: _base64, ...others } = file;
  if (!bytes) return others;
  return { size: bytes.length, sha256: hash('sha256', bytes), ...others };
}

/** The bytes of a file; undefined: they are those of a secret; null: they are no base64. */
function contentOf({ content, content_base64: base64 }: RunFile): Buffer | undefined | null {
  if (base64 !== undefined) return fromBase64(base64) ?? null;
  return content === undefined ? undefined : Buffer.from(content);
}
