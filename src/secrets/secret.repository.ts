import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { MoreThan, Repository } from 'typeorm';
import { recordChange, type Author } from '../auth/audit-log.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { SecretEntity } from '../database/entities/security.entity.js';
import { WebhookEntity } from '../database/entities/webhook.entity.js';
import { execute, rows } from '../database/sql/sql.js';
import type { SecretIdentity } from './secret-cipher.js';

/** A row of `secrets` without the ciphertext. */
export type SecretRow = Omit<SecretEntity, 'ciphertext'>;
/** What is encrypted, and its name. */
export type StoredSecret = Pick<SecretEntity, 'name' | 'kind' | 'ciphertext'>;

/** Secrets that one transaction of a rotation encrypts again. */
const ROTATION_BATCH = 50;

const SECRETS = new EntityTable(SecretEntity);
const NEW_CIPHERTEXTS = SECRETS.unnest(['name', 'ciphertext']);
/** Whether another key than that of the first parameter encrypts a secret. */
const NEEDS_ROTATION = 'substr(s.ciphertext, 1, length($1::bytea)) <> $1::bytea';
const NEW_WEBHOOK_SECRETS = new EntityTable(WebhookEntity).unnest(['id', 'secret', 'oldSecret']);
const WEBHOOK_NEEDS_ROTATION =
  '(substr(secret, 1, length($1::bytea)) <> $1::bytea or substr(old_secret, 1, length($1::bytea)) <> $1::bytea)';

@Injectable()
export class SecretRepository {
  constructor(@InjectRepository(SecretEntity) private readonly secrets: Repository<SecretEntity>) {}

  /**
   * Stores a secret, or replaces it but for its creation time, and records it in the audit log. TypeORM's upsert does not
   * tell which one it did.
   */
  put(
    { name, kind, ciphertext }: StoredSecret,
    by: Author,
  ): Promise<{ readonly row: SecretRow; readonly created: boolean }> {
    return this.secrets.manager.transaction(async (manager) => {
      const [stored] = await rows<SecretRow & { readonly created: boolean }>(
        manager,
        `insert into ${SECRETS.name} as s (${SECRETS.columns(['name', 'kind', 'ciphertext', 'createdAt', 'updatedAt'])})
         values ($1::text, $2::text, $3::bytea, clock_timestamp(), clock_timestamp())
             on conflict (name) do update
            set ${SECRETS.set(['kind', 'ciphertext', 'updatedAt'], 'excluded')}
      returning ${SECRETS.select('s', SECRETS.except('ciphertext'))}, s.xmax = 0 as created`,
        [name, kind, ciphertext],
      );
      if (!stored) throw new Error('the database did not return the secret');
      const { created, ...row } = stored;
      const action = created ? 'secret.create' : 'secret.replace';
      await recordChange(manager, by, { action, subject: name, before: {}, after: { kind } });
      return { row, created };
    });
  }

  /** By name. @param after the page starts after this name */
  list(limit: number, after?: string): Promise<SecretRow[]> {
    return this.secrets.find({
      where: after === undefined ? {} : { name: MoreThan(after) },
      order: { name: 'ASC' },
      take: limit,
    });
  }

  /** Removes a secret and records it in the audit log. @returns whether it existed */
  remove(name: string, by: Author): Promise<boolean> {
    return this.secrets.manager.transaction(async (manager) => {
      const { raw } = await manager
        .createQueryBuilder()
        .delete()
        .from(SecretEntity)
        .where({ name })
        .returning('kind')
        .execute();
      const [removed]: readonly Pick<SecretEntity, 'kind'>[] = raw;
      if (!removed) return false;
      await recordChange(manager, by, {
        action: 'secret.delete',
        subject: name,
        before: { kind: removed.kind },
        after: {},
      });
      return true;
    });
  }

  /**
   * Encrypts the next secrets again that another key than `keyId` encrypts, and records it in the audit log. Locks their
   * rows in the order of names, so that two processes cannot deadlock and a replacement is not undone.
   * @param after continues after this name
   * @param encrypt the new ciphertext; null leaves a secret as it is
   * @returns how many were encrypted again, and the last name that was read; null when none is left
   */
  rotateNext(
    keyId: Buffer,
    after: string,
    encrypt: (secret: StoredSecret) => Buffer | null,
    by: Author,
  ): Promise<{ readonly rotated: number; readonly last: string } | null> {
    return this.secrets.manager.transaction(async (manager) => {
      const old = await rows<StoredSecret>(
        manager,
        `select ${SECRETS.select('s', ['name', 'kind', 'ciphertext'])}
           from ${SECRETS.name} s
          where ${NEEDS_ROTATION}
            and s.name > $2::text
          order by s.name
          limit ${ROTATION_BATCH}
            for no key update`,
        [keyId, after],
      );
      const last = old.at(-1);
      if (!last) return null;
      const changed = old.flatMap((secret) => {
        const ciphertext = encrypt(secret);
        return ciphertext ? [{ name: secret.name, ciphertext }] : [];
      });
      if (changed.length > 0) {
        await execute(
          manager,
          `update ${SECRETS.name} s
              set ciphertext = v.ciphertext
             from ${NEW_CIPHERTEXTS.sql}
            where s.name = v.name`,
          NEW_CIPHERTEXTS.params(changed),
        );
        await recordChange(manager, by, {
          action: 'secret.rotate',
          subject: keyId.toString('hex'),
          before: {},
          after: { secrets: changed.length },
        });
      }
      return { rotated: changed.length, last: last.name };
    });
  }

  /**
   * Encrypts the secrets of webhooks again that another key than `keyId` encrypts, all of a webhook together.
   * @param encrypt the new ciphertext; null leaves a webhook as it is
   * @returns of how many webhooks
   */
  rotateWebhooks(
    keyId: Buffer,
    encrypt: (identity: SecretIdentity, ciphertext: Buffer) => Buffer | null,
    by: Author,
  ): Promise<number> {
    return this.secrets.manager.transaction(async (manager) => {
      const old = await rows<Pick<WebhookEntity, 'id' | 'secret' | 'oldSecret'>>(
        manager,
        `select id, secret, old_secret as "oldSecret"
           from webhooks
          where ${WEBHOOK_NEEDS_ROTATION}
          order by id
            for no key update`,
        [keyId],
      );
      const changed = old.flatMap(({ id, secret, oldSecret }) => {
        const identity = { name: id, kind: 'webhook' } as const;
        const [next, nextOld] = [encrypt(identity, secret), oldSecret && encrypt(identity, oldSecret)];
        return next === null || (oldSecret && !nextOld) ? [] : [{ id, secret: next, oldSecret: nextOld }];
      });
      if (changed.length === 0) return 0;
      await execute(
        manager,
        `update webhooks w
            set secret = v.secret, old_secret = v.old_secret
           from ${NEW_WEBHOOK_SECRETS.sql}
          where w.id = v.id`,
        NEW_WEBHOOK_SECRETS.params(changed),
      );
      await recordChange(manager, by, {
        action: 'secret.rotate',
        subject: keyId.toString('hex'),
        before: {},
        after: { webhooks: changed.length },
      });
      return changed.length;
    });
  }

  /** How many secrets, those of webhooks included, another key than `keyId` encrypts. */
  async countUnrotated(keyId: Buffer): Promise<number> {
    const [counted] = await rows<{ readonly n: number }>(
      this.secrets.manager,
      `select ((select count(*) from ${SECRETS.name} s where ${NEEDS_ROTATION})
             + (select count(*) from webhooks where ${WEBHOOK_NEEDS_ROTATION}))::integer as n`,
      [keyId],
    );
    return counted?.n ?? 0;
  }
}
