import { Injectable, Logger } from '@nestjs/common';
import { recordSecretsRead } from '../auth/audit-log.js';
import type { Caller } from '../auth/access.js';
import { textOrBytes } from '@longshore/common/binary';
import { DataSource } from 'typeorm';
import { EntityTable } from '../database/sql/entity-table.js';
import { SecretEntity, type SecretKind } from '../database/entities/security.entity.js';
import { rows } from '../database/sql/sql.js';
import type { Fence } from '../runs/http/request-headers.js';
import type { RunRecord } from '../runs/machine/run.js';
import { type RequiringRun, requirementsOf } from '../runs/requirements.js';
import { REQUIRING_COLUMNS, RUNS } from '../runs/storage/run-columns.js';
import { assertCovers } from '../auth/api-key.guard.js';
import { showOptions } from '../runs/options/stored-options.js';
import type { SecretVariables } from '../runs/options/option-declarations.js';
import { VARIABLE_NAME } from '@longshore/common/variable-names';
import { assertHolds } from '../runs/http/held-run.guard.js';
import { RunNotFound } from '../runs/run.errors.js';
import { isRunId } from '../runs/machine/new-id.js';
import type { RegistryLoginDto, RunSecretsDto } from './secret.dto.js';
import { SecretCipher } from './secret-cipher.js';
import {
  SecretIsBinary,
  SecretNotFound,
  SecretOfOtherKind,
  SecretUndecryptable,
  SecretVariableRefused,
} from './secrets.errors.js';

/** Who holds a run, and those of its secrets that exist. */
interface RunSecrets extends RequiringRun, Pick<RunRecord, 'state' | 'workerId' | 'attempt'> {
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
const FIND = `select r.state, r.worker_id as "workerId", r.attempt, ${REQUIRING_COLUMNS},
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

/** Gives the values of a run's secrets to the worker that holds the run. */
@Injectable()
export class RunSecretsService {
  private readonly logger = new Logger('Secrets');

  constructor(
    private readonly dataSource: DataSource,
    private readonly cipher: SecretCipher,
  ) {}

  /**
   * A run without secrets has an empty answer even when secrets are not configured. Values are given only after the audit
   * log has an entry of it.
   * @throws RunNotFound; RunRejected unless the worker holds the run at this attempt; KeyOfOtherTags; SecretsNotConfigured;
   * SecretNotFound, SecretOfOtherKind, SecretIsBinary and SecretVariableRefused, which name the first such secret; SecretUndecryptable; errors
   * of the database
   */
  async get(runId: string, { workerId, attempt }: Fence, caller: Caller): Promise<RunSecretsDto> {
    const run = isRunId(runId) ? await this.#find(runId, { workerId, attempt }) : null;
    if (!run) throw new RunNotFound(runId);
    assertHolds(run, runId, { workerId, attempt });
    assertCovers(caller, requirementsOf(run));
    const { secrets_from: maps, secrets, files, image_pull_secret: login } = showOptions(run.options);
    const registry = login ?? null;
    const opaque = Object.entries(secrets ?? {}).map(
      ([variable, name]) => [variable, this.#text(run, name, 'opaque')] as const,
    );
    const values = Object.entries(files ?? {}).flatMap(([path, { secret }]) =>
      secret === undefined ? [] : [[path, textOrBytes(this.#decrypt(run, secret, 'opaque'))] as const],
    );
    const texts = values.flatMap(([path, value]) =>
      typeof value === 'string' ? [[path, value] as const] : [],
    );
    const others = values.flatMap(([path, value]) =>
      Buffer.isBuffer(value) ? [[path, value.toString('base64')] as const] : [],
    );
    const answer = {
      env: Object.fromEntries([...(maps ?? []).flatMap((map) => this.#variables(run, map)), ...opaque]),
      files: Object.fromEntries(texts),
      ...(others.length > 0 && { files_base64: Object.fromEntries(others) }),
      registry: registry === null ? null : toLogin(this.#text(run, registry, 'registry')),
    };
    // It uses all that were found: another one would have been missed above.
    const names = [...run.secrets.keys()];
    if (names.length > 0) {
      const read = { runId, attempt, workerId, names: names.toSorted() };
      await recordSecretsRead(this.dataSource, caller, read);
    }
    return answer;
  }

  /** Null for an unknown run. */
  async #find(runId: string, { workerId, attempt }: Fence): Promise<RunSecrets | null> {
    const [stored] = await rows<StoredRunSecrets>(this.dataSource, FIND, [runId, workerId, attempt]);
    if (!stored) return null;
    const { found, ...run } = stored;
    const secrets = Object.entries(found ?? {}).map(
      ([name, { kind, base64 }]) => [name, { kind, ciphertext: Buffer.from(base64, 'base64') }] as const,
    );
    return { ...run, secrets: new Map(secrets) };
  }

  /** @throws SecretVariableRefused when the prefix makes a name that no run may set, or that of the path of a file */
  #variables(
    run: RunSecrets,
    { secret, prefix = '' }: SecretVariables,
  ): readonly (readonly [name: string, value: string])[] {
    const variables: Readonly<Record<string, string>> = JSON.parse(this.#text(run, secret, 'map'));
    const ofFiles = Object.values(showOptions(run.options).files ?? {}).map(({ env }) => env);
    return Object.entries(variables).map(([name, value]) => {
      const isTaken = ofFiles.includes(prefix + name);
      if (isTaken || !VARIABLE_NAME.pattern.test(prefix + name))
        throw new SecretVariableRefused(secret, prefix + name);
      return [prefix + name, value];
    });
  }

  #text(run: RunSecrets, name: string, kind: SecretKind): string {
    const value = textOrBytes(this.#decrypt(run, name, kind));
    if (typeof value !== 'string') throw new SecretIsBinary(name);
    return value;
  }

  #decrypt({ secrets }: RunSecrets, name: string, kind: SecretKind): Buffer {
    this.cipher.assertConfigured();
    const secret = secrets.get(name);
    if (!secret) throw new SecretNotFound(name);
    if (secret.kind !== kind) throw new SecretOfOtherKind(name, secret.kind, kind);
    try {
      return this.cipher.decrypt({ name, kind }, secret.ciphertext);
    } catch (error) {
      if (error instanceof SecretUndecryptable) this.logger.error(error.message);
      throw error;
    }
  }
}

function toLogin(json: string): RegistryLoginDto {
  const { server, username, password }: RegistryLoginDto = JSON.parse(json);
  return { server, username, password };
}
