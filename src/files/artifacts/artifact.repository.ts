import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { ArtifactEntity } from '../../database/entities/artifact.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { rows, unnestRows } from '../../database/sql/sql.js';
import type { RunRecord } from '../../runs/machine/run.js';

/** Files that a run gets of sources which are folders, at most; also those of one that is asked for. */
export const MAX_FOLDER_FILES = 1_000;

/** An artifact that somebody asks for. */
export interface ArtifactName {
  readonly run: string;
  readonly name: string;
}

/** What there is of it. */
export interface FoundArtifact {
  /** Null: there is no such run. */
  readonly hasEnded: boolean | null;
  /** The artifact of this name, or those below it; more than {@link MAX_FOLDER_FILES} are not read. */
  readonly artifacts: readonly ArtifactEntity[];
}

/** What the store must know of a run to give its files. */
export type RunWithFiles = Pick<
  RunRecord,
  | 'id'
  | 'state'
  | 'attempt'
  | 'workerId'
  | 'attemptTimeoutS'
  | 'hasFiles'
  | 'options'
  | 'inputs'
  | 'outputsTemplate'
>;

const ARTIFACTS = new EntityTable(ArtifactEntity);

/** The table `artifacts`. */
@Injectable()
export class ArtifactRepository {
  constructor(private readonly dataSource: DataSource) {}

  /** Null for an unknown run. */
  async findRun(id: string): Promise<RunWithFiles | null> {
    const [run] = await rows<RunWithFiles>(
      this.dataSource,
      `select r.id, r.state, r.attempt, r.worker_id as "workerId", r.attempt_timeout_s as "attemptTimeoutS",
              r.has_files as "hasFiles", r.options, r.inputs, r.outputs_template as "outputsTemplate"
         from runs r
        where r.id = $1::uuid`,
      [id],
    );
    return run ?? null;
  }

  /** The artifacts of a run by name: as many as a report may have. */
  list(runId: string): Promise<ArtifactEntity[]> {
    return rows<ArtifactEntity>(
      this.dataSource,
      `select ${ARTIFACTS.select('a')}
         from ${ARTIFACTS.name} a
        where a.run_id = $1::uuid
        order by a.name
        limit ${2 * MAX_FOLDER_FILES}`,
      [runId],
    );
  }

  /** By index of the names. */
  async find(names: readonly ArtifactName[]): Promise<FoundArtifact[]> {
    if (names.length === 0) return [];
    const asked = unnestRows(
      { nth: 'integer', run: 'uuid', name: 'text' },
      names.map(({ run, name }, nth) => ({ nth, run, name })),
    );
    const found = await rows<{ nth: number; hasEnded: boolean | null; isThere: boolean } & ArtifactEntity>(
      this.dataSource,
      `select v.nth, case when r.id is not null then r.finished_at is not null end as "hasEnded", a.run_id is not null as "isThere",
              ${ARTIFACTS.select('a')}
         from ${asked.sql}
         left join runs r on r.id = v.run
         left join lateral (
                select *
                  from ${ARTIFACTS.name}
                 where run_id = v.run
                   and (name = v.name or starts_with(name, v.name || '/'))
                 order by name
                 limit ${MAX_FOLDER_FILES + 1}
              ) a on true
        order by v.nth, a.name`,
      asked.params,
    );
    return names.map((_, index) => {
      const own = found.filter(({ nth }) => nth === index);
      return { hasEnded: own[0]?.hasEnded ?? null, artifacts: own.filter(({ isThere }) => isThere) };
    });
  }
}
