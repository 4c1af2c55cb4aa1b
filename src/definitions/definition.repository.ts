import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository, type SelectQueryBuilder } from 'typeorm';
import { DefinitionEntity } from '../database/entities/definition.entity.js';
import { EntityTable } from '../database/entity-table.js';
import { rows } from '../database/sql.js';

/** The content of a version; the database adds the times. */
export type DefinitionRow = Omit<DefinitionEntity, 'createdAt' | 'updatedAt' | 'creationOrder'>;

/** The key of a version. */
export type VersionName = Pick<DefinitionEntity, 'id' | 'version'>;

/** A page of the list of versions. */
export interface DefinitionPage {
  /** Versions at most; all unless given. */
  readonly limit?: number | undefined;
  /** An existing version, after which the page begins; at the beginning unless given. */
  readonly after?: VersionName | undefined;
}

/** A page of the list of definitions. */
export interface LatestPage {
  readonly limit: number;
  /** The page begins after this id; at the beginning unless given. */
  readonly after?: string | undefined;
  /** Only ids with this text, whatever the case of its letters. */
  readonly search?: string | undefined;
}

/** The number of versions of a definition. */
export interface VersionCount {
  readonly versions: number;
}

const DEFINITIONS = new EntityTable(DefinitionEntity);
const READ = DEFINITIONS.except('creationOrder');
const CONTENT = DEFINITIONS.except('createdAt', 'updatedAt', 'creationOrder');
const NEW_VERSION = DEFINITIONS.unnest(CONTENT);
const UPSERT = `insert into ${DEFINITIONS.name} as d (${DEFINITIONS.columns(CONTENT)}, created_at, updated_at)
       select ${DEFINITIONS.columns(CONTENT, 'v')}, clock_timestamp(), clock_timestamp()
         from ${NEW_VERSION.sql}
           on conflict (id, version) do update
          set ${DEFINITIONS.set([...CONTENT, 'updatedAt'], 'excluded')}
    returning ${DEFINITIONS.select('d', READ)}, d.xmax = 0 as created`;

/** Stores and reads definitions. */
@Injectable()
export class DefinitionRepository {
  constructor(
    @InjectRepository(DefinitionEntity) private readonly definitions: Repository<DefinitionEntity>,
  ) {}

  /**
   * Stores a version, or replaces it; its time of creation stays. `created` tells which of the two it was.
   *
   * In SQL because the query builder has no type for values of any JSON, and an upsert of a repository does not tell
   * an insert from an update.
   */
  async upsert(row: DefinitionRow): Promise<{ readonly row: DefinitionEntity; readonly created: boolean }> {
    const values = {
      ...row,
      inputSpecs: JSON.stringify(row.inputSpecs),
      outputSpecs: JSON.stringify(row.outputSpecs),
      attributes: row.attributes && JSON.stringify(row.attributes),
    };
    const [stored] = await rows<DefinitionEntity & { readonly created: boolean }>(
      this.definitions.manager,
      UPSERT,
      NEW_VERSION.params([values]),
    );
    if (!stored) throw new Error('the database did not return the definition that it stored');
    const { created, ...stays } = stored;
    return { row: stays, created };
  }

  /** One version, or null. */
  find(id: string, version: string): Promise<DefinitionEntity | null> {
    return this.definitions.findOneBy({ id, version });
  }

  /** The version that was created last, or null. */
  findLatest(id: string): Promise<DefinitionEntity | null> {
    return this.definitions.findOne({ where: { id }, order: { createdAt: 'DESC', creationOrder: 'DESC' } });
  }

  /** Versions of one definition, the newest first. */
  listVersions(id: string, { limit, after }: DefinitionPage = {}): Promise<DefinitionEntity[]> {
    const query = this.definitions
      .createQueryBuilder('d')
      .where('d.id = :id', { id })
      .orderBy('d.createdAt', 'DESC')
      .addOrderBy('d.creationOrder', 'DESC')
      .limit(limit);
    if (after)
      query.andWhere(
        `(d.createdAt, d.creationOrder) < ${placeOf(query, ['createdAt', 'creationOrder'])}`,
        after,
      );
    return query.getMany();
  }

  /**
   * The newest version of every definition that has the text in its id, by id, and how many versions there are.
   *
   * In SQL because the query builder has no lateral join: each newest version is one step in an index.
   */
  listLatest({ limit, after, search = '' }: LatestPage): Promise<(DefinitionEntity & VersionCount)[]> {
    return rows<DefinitionEntity & VersionCount>(
      this.definitions.manager,
      `select latest.*, (select count(*) from ${DEFINITIONS.name} where id = names.id)::integer as versions
         from (
           select id
             from ${DEFINITIONS.name}
            where id > $1::text
              and position(lower($2::text) in lower(id)) > 0
            group by id
            order by id
            limit $3::bigint
         ) names
        cross join lateral (
           select ${DEFINITIONS.select('d', READ)}
             from ${DEFINITIONS.name} d
            where d.id = names.id
            order by d.created_at desc, d.creation_order desc
            limit 1
         ) latest
        order by names.id`,
      [after ?? '', search, limit],
    );
  }

  /** Versions of all definitions, by id, the oldest version first: all of them, or a page. */
  list({ limit, after }: DefinitionPage = {}): Promise<DefinitionEntity[]> {
    const query = this.definitions
      .createQueryBuilder('d')
      .orderBy('d.id')
      .addOrderBy('d.createdAt')
      .addOrderBy('d.creationOrder')
      .limit(limit);
    if (after) {
      // By the id alone first, so that the index of ids leads to where the page begins.
      query
        .where('d.id >= :id', after)
        .andWhere(
          `(d.id, d.createdAt, d.creationOrder) > ${placeOf(query, ['id', 'createdAt', 'creationOrder'])}`,
        );
    }
    return query.getMany();
  }
}

/** Subquery of the place in an order of the version that the parameters `id` and `version` name. */
function placeOf(
  query: SelectQueryBuilder<DefinitionEntity>,
  fields: readonly (keyof DefinitionEntity)[],
): string {
  return query
    .subQuery()
    .select(fields.map((field) => `p.${field}`))
    .from(DefinitionEntity, 'p')
    .where('p.id = :id and p.version = :version')
    .getQuery();
}
