import { Injectable } from '@nestjs/common';
import { recordSecretsRead, type SecretsRead } from '../auth/audit-log.js';
import type { Caller } from '../auth/access.js';
import { DataSource } from 'typeorm';
import { EntityTable } from '../database/sql/entity-table.js';
import { SecretEntity } from '../database/entities/security.entity.js';
import { rows } from '../database/sql/sql.js';
import type { Fence } from '../runs/http/request-headers.js';
import type { RunRecord } from '../runs/machine/run.js';
import { REQUIRING_FIELDS, type RequiringRun } from '../runs/requirements.js';
import { RUNS } from '../runs/storage/run-columns.js';

/** Who holds a run, and those of its secrets that exist. */
export interface RunSecrets extends RequiringRun, Pick<RunRecord, 'state' | 'workerId' | 'attempt'> {
  /** By name; empty unless the worker holds the run at the attempt. */
  readonly secrets: ReadonlyMap<string, Pick<SecretEntity, 'kind' | 'ciphertext'>>;
}

interface StoredRunSecrets extends Omit<RunSecrets, 'secrets'> {
  readonly found: Readonly<
    Record<string, { readonly kind: SecretEntity['kind']; readonly base64: string }>
  > | null;
}

const SECRETS = new EntityTable(SecretEntity);
const OPTIONS = `r."${RUNS.column('options')}"`;

/** One statement, so that the run is held at the moment at which its secrets are read. */
const FIND = `select ${RUNS.select('r', ['state', 'workerId', 'attempt', ...REQUIRING_FIELDS])},
       (select json_object_agg(s.name, json_build_object('kind', s.kind, 'base64', encode(s.ciphertext, 'base64')))
          from ${SECRETS.name} s
         where r.state in ('ASSIGNED', 'RUNNING')
           and r.worker_id = $2::text
           and r.attempt = $3::integer
           and s.name in (select value from json_each_text(${OPTIONS} -> 'secrets')
                           union all
                          select value ->> 'secret' from json_array_elements(${OPTIONS} -> 'secrets_from')
                           union all
                          select value ->> 'secret' from json_each(${OPTIONS} -> 'files')
                           union all
                          select ${OPTIONS} ->> 'image_pull_secret')) as found
  from ${RUNS.name} r
 where r.id = $1::uuid`;

@Injectable()
export class RunSecretsRepository {
  constructor(private readonly dataSource: DataSource) {}

  /** Null for an unknown run. */
  async find(runId: string, { workerId, attempt }: Fence): Promise<RunSecrets | null> {
    const [stored] = await rows<StoredRunSecrets>(this.dataSource, FIND, [runId, workerId, attempt]);
    if (!stored) return null;
    const { found, ...run } = stored;
    const secrets = Object.entries(found ?? {}).map(
      ([name, { kind, base64 }]) => [name, { kind, ciphertext: Buffer.from(base64, 'base64') }] as const,
    );
    return { ...run, secrets: new Map(secrets) };
  }

  /** Records in the audit log that an API key gets the values; once for each attempt and key. */
  async recordRead(read: SecretsRead, by: Caller): Promise<void> {
    await recordSecretsRead(this.dataSource, by, read);
  }
}
