import { Injectable } from '@nestjs/common';
import { fromBase64 } from '@longshore/common/binary';
import { assertNever } from '@longshore/common/json/assert-never';
import { JsonRefused, readJson } from '@longshore/common/json/read-json';
import type { Author } from '../auth/audit-log.js';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { textMapProblem } from '../common/http/validation/dto-decorators.js';
import { DtoPlan } from '../common/http/validation/dto-plan.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { Log } from '../common/logging/logger.js';
import type { SecretKind } from '../database/entities/security.entity.js';
import type { Page } from '../database/sql/read-page.js';
import { MAX_VARIABLES, SECRET_NAME } from '../runs/options/names.js';
import { VARIABLE_NAME } from '@longshore/common/variable-names';
import { SecretCipher, type SecretIdentity } from './secret-cipher.js';
import {
  MAX_LISTED_SECRETS,
  MAX_SECRET_BYTES,
  RegistryLoginDto,
  toSecretDto,
  type ListSecretsQueryDto,
  type PutSecretDto,
  type SecretDto,
  type SecretRotationDto,
} from './secret.dto.js';
import { SecretRepository } from './secret.repository.js';
import { SecretNotFound, SecretUndecryptable } from './secrets.errors.js';

/** What admins do with secrets. Every method throws SecretsNotConfigured without SERVICE_SECRETS_KEY. */
@Injectable()
export class SecretsService {
  constructor(
    private readonly secrets: SecretRepository,
    private readonly cipher: SecretCipher,
    private readonly log: Log,
  ) {}

  /** Stores a secret or replaces it. @throws InvalidRequest for a name or value that is not allowed */
  async put(
    name: string,
    { kind, ...given }: PutSecretDto,
    by: Author,
  ): Promise<{ readonly secret: SecretDto; readonly created: boolean }> {
    this.cipher.assertConfigured();
    const { pattern, max, form } = SECRET_NAME;
    if (!pattern.test(name) || name.length > max) {
      throw refused(`name must be ${form} of 1 to ${max} characters`);
    }
    const ciphertext = this.cipher.encrypt({ name, kind }, valueOf(kind, given));
    const { row, created } = await this.secrets.put({ name, kind, ciphertext }, by);
    this.log.info(created ? 'created a secret' : 'replaced a secret', { name, kind, by: by.name });
    return { secret: toSecretDto(row), created };
  }

  /** By name. */
  async list({ limit = MAX_LISTED_SECRETS, after }: ListSecretsQueryDto): Promise<Page<SecretDto>> {
    this.cipher.assertConfigured();
    const found = await this.secrets.list(limit + 1, after);
    return { items: found.slice(0, limit).map(toSecretDto), hasMore: found.length > limit };
  }

  /** @throws SecretNotFound */
  async delete(name: string, by: Author): Promise<void> {
    this.cipher.assertConfigured();
    if (!(await this.secrets.remove(name, by))) throw new SecretNotFound(name);
    this.log.info('deleted a secret', { name, by: by.name });
  }

  /**
   * Encrypts every secret, those of webhooks included, with the first key of SERVICE_SECRETS_KEY that another one encrypts, in
   * transactions of a bounded number of secrets. Those whose key is not configured stay as they are.
   */
  async rotate(by: Author): Promise<SecretRotationDto> {
    const { keyId } = this.cipher;
    const encrypt = (identity: SecretIdentity, ciphertext: Buffer): Buffer | null =>
      this.#encryptAgain(identity, ciphertext);
    let rotated = await this.secrets.rotateWebhooks(keyId, encrypt, by);
    let after = '';
    for (;;) {
      const batch = await this.secrets.rotateNext(
        keyId,
        after,
        (secret) => encrypt(secret, secret.ciphertext),
        by,
      );
      if (!batch) break;
      rotated += batch.rotated;
      after = batch.last;
    }
    const remaining = await this.secrets.countUnrotated(keyId);
    this.log.info('rotated secrets', { rotated, remaining, keyId: keyId.toString('hex'), by: by.name });
    return { rotated, remaining };
  }

  #encryptAgain(identity: SecretIdentity, ciphertext: Buffer): Buffer | null {
    try {
      return this.cipher.encrypt(identity, this.cipher.decrypt(identity, ciphertext));
    } catch (error) {
      if (!(error instanceof SecretUndecryptable)) throw error;
      this.log.warn('cannot rotate a secret', { name: identity.name, reason: error.reason });
      return null;
    }
  }
}

/** What is encrypted. @throws InvalidRequest that repeats nothing of the value */
function valueOf(
  kind: SecretKind,
  { value, value_base64: base64 }: Omit<PutSecretDto, 'kind'>,
): string | Buffer {
  if (base64 === undefined) {
    const text = value === undefined ? undefined : textOf(kind, value);
    if (text === undefined) throw refused('either value or value_base64 is required');
    if (typeof text === 'string' && Buffer.byteLength(text) <= MAX_SECRET_BYTES) return text;
    throw refused(`value must be a string of at most ${MAX_SECRET_BYTES} bytes`);
  }
  if (value !== undefined) throw refused('value and value_base64 must not be given together');
  if (kind !== 'opaque') throw refused('value_base64 must be given only for the kind opaque');
  const bytes = fromBase64(base64);
  if (bytes !== undefined && bytes.length <= MAX_SECRET_BYTES) return bytes;
  throw refused(
    `value_base64 must be base64 of at most ${MAX_SECRET_BYTES} bytes, with padding and without line breaks`,
  );
}

function refused(problem: string): InvalidRequest {
  return new InvalidRequest(VALIDATION_FAILED, [problem]);
}

function textOf(kind: SecretKind, value: string | object): unknown {
  switch (kind) {
    case 'opaque':
      return value;
    case 'registry':
      return JSON.stringify(readLogin(value));
    case 'map':
      return JSON.stringify(readVariables(value));
    default:
      return assertNever(kind);
  }
}

function readVariables(value: string | object): unknown {
  const variables = typeof value === 'string' ? parsed(value) : value;
  if (textMapProblem(variables, { keys: VARIABLE_NAME, max: MAX_VARIABLES }) === undefined) return variables;
  const rule = `must be an object of at most ${MAX_VARIABLES} variables to strings, or its JSON text`;
  throw refused(`value ${rule}; a name has ${VARIABLE_NAME.form}`);
}

function readLogin(value: string | object): object {
  return DtoPlan.of(RegistryLoginDto).read(typeof value === 'string' ? parsed(value) : value, {
    notAnObject: 'value must be an object {server, username, password}, or its JSON text',
    path: 'value',
    describeUnknown: () => 'value has an unknown field',
  });
}

function parsed(text: string): unknown {
  try {
    return readJson(Buffer.from(text));
  } catch (error) {
    if (error instanceof JsonRefused) return undefined;
    throw error;
  }
}
