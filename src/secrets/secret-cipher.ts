import { createCipheriv, createDecipheriv, hash, randomBytes, type KeyObject } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { Settings } from '../config/settings.js';
import type { SecretEntity } from '../database/entities/security.entity.js';
import { SecretsNotConfigured } from '../runs/run.errors.js';
import { SecretUndecryptable } from './secrets.errors.js';

/** Names a secret; it is authenticated with the value, so that a value moved to another row does not decrypt. */
export interface SecretIdentity {
  readonly name: string;
  readonly kind: SecretEntity['kind'] | 'webhook';
}

const ALGORITHM = 'aes-256-gcm';
const KEY_ID_BYTES = 8;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HEADER_BYTES = KEY_ID_BYTES + NONCE_BYTES;

interface Key {
  readonly id: Buffer;
  readonly key: KeyObject;
}

/**
 * Encrypts and decrypts the values of secrets with AES-256-GCM under the keys of SERVICE_SECRETS_KEY. A ciphertext is the
 * id of its key (8 bytes), a random nonce (12 bytes), the encrypted bytes, of a text in UTF-8, and the tag (16 bytes).
 */
@Injectable()
export class SecretCipher {
  readonly #keys: readonly Key[];

  constructor(@Inject(Settings) { secretsKeys }: Pick<Settings, 'secretsKeys'>) {
    this.#keys = secretsKeys.map((key) => ({ id: idOf(key), key }));
  }

  /** Id of the key that encrypts. @throws SecretsNotConfigured */
  get keyId(): Buffer {
    return this.#first().id;
  }

  /** @throws SecretsNotConfigured */
  assertConfigured(): void {
    this.#first();
  }

  /** @throws SecretsNotConfigured */
  encrypt(identity: SecretIdentity, value: string | Buffer): Buffer {
    const { id, key } = this.#first();
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(authenticatedData(identity));
    const text = [cipher.update(Buffer.from(value)), cipher.final()];
    return Buffer.concat([id, nonce, ...text, cipher.getAuthTag()]);
  }

  /** @throws SecretsNotConfigured; SecretUndecryptable when its key is not configured, or the row was changed */
  decrypt(identity: SecretIdentity, ciphertext: Buffer): Buffer {
    this.assertConfigured();
    const id = ciphertext.subarray(0, KEY_ID_BYTES);
    const found = this.#keys.find((key) => key.id.equals(id));
    if (!found) throw new SecretUndecryptable(identity.name, 'its key is not in SERVICE_SECRETS_KEY');
    try {
      const nonce = ciphertext.subarray(KEY_ID_BYTES, HEADER_BYTES);
      const decipher = createDecipheriv(ALGORITHM, found.key, nonce, { authTagLength: TAG_BYTES });
      decipher.setAAD(authenticatedData(identity));
      decipher.setAuthTag(ciphertext.subarray(-TAG_BYTES));
      const text = decipher.update(ciphertext.subarray(HEADER_BYTES, -TAG_BYTES));
      return Buffer.concat([text, decipher.final()]);
    } catch {
      throw new SecretUndecryptable(identity.name, 'its row was changed outside of the service');
    }
  }

  #first(): Key {
    const [first] = this.#keys;
    if (!first) throw new SecretsNotConfigured();
    return first;
  }
}

function idOf(key: KeyObject): Buffer {
  return hash('sha256', key.export(), 'buffer').subarray(0, KEY_ID_BYTES);
}

function authenticatedData({ name, kind }: SecretIdentity): Buffer {
  return Buffer.from(`longshore secret\0${kind}\0${name}`);
}
