import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { stringifyJson } from '@longshore/common/json/json-text';
import { DefinitionEntity } from '../database/entities/definition.entity.js';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { replaceFileUses, unuseFiles, type FileUser } from '../database/file-uses.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { execute, rows } from '../database/sql/sql.js';
import { recordChange, type Author } from '../auth/audit-log.js';
import { inputReferences } from '../runs/options/artifact-references.js';
import { toDefinitionDto } from './dto/definition.dto.js';

export type DefinitionRow = Omit<DefinitionEntity, 'createdAt' | 'updatedAt' | 'creationOrder'>;

/** What orders the versions of a definition; it stays valid when the version is removed. */
type VersionPlace = Pick<DefinitionEntity, 'createdAt' | 'creationOrder'>;

export type LatestDefinition = DefinitionEntity & { readonly versions: number };

/** First half of the advisory locks of definitions; the second is a hash of the id. */
const UPSERT_LOCK = 1_417_208_835;

const DEFINITIONS = new EntityTable(DefinitionEntity);
const GIVEN = DEFINITIONS.except('createdAt', 'updatedAt', 'creationOrder');
const REPLACED = DEFINITIONS.except('applied', 'createdAt', 'createdBy', 'createdByName', 'creationOrder');
const NEW_VERSION = DEFINITIONS.unnest(GIVEN, { firstParam: 2 });
const UPSERT = `insert into ${DEFINITIONS.name} as d (${DEFINITIONS.columns(GIVEN)}, created_at, updated_at)
       select ${DEFINITIONS.columns(GIVEN, 'v')}, clock_timestamp(), clock_timestamp()
         from ${NEW_VERSION.sql}
        where exists (select from ${DEFINITIONS.name} o where o.id = v.id and o.version = v.version)
           or (select count(*) from ${DEFINITIONS.name} o where o.id = v.id) < $1::integer
           on conflict (id, version) do update
          set ${DEFINITIONS.set(REPLACED, 'excluded')}, applied = coalesce(excluded.applied, d.applied)
    returning ${DEFINITIONS.select('d')}, d.xmax = 0 as created`;

/** A version as what uses files. */
function fileUser(id: string, version: string): FileUser {
  return { kind: 'definition', id: `${id}/${version}` };
}

@Injectable()
export class DefinitionRepository {
  constructor(
    @InjectRepository(DefinitionEntity) private readonly definitions: Repository<DefinitionEntity>,
  ) {}

  /**
   * Stores a version, or replaces it but for its creation, and records it in the audit log; null when the definition
   * has as many versions as it may. TypeORM's upsert does not tell which one it did.
   */
  upsert(
    row: DefinitionRow,
    maxVersions: number,
    by: Author,
  ): Promise<{ readonly row: DefinitionEntity; readonly created: boolean } | null> {
    const values = {
      ...row,
      inputSpecs: stringifyJson(row.inputSpecs),
      outputSpecs: stringifyJson(row.outputSpecs),
      attributes: row.attributes && stringifyJson(row.attributes),
      applied: row.applied && stringifyJson(row.applied),
    };
    const { id, version } = row;
    return this.definitions.manager.transaction(async (manager) => {
      // A row that does not exist yet cannot be locked. In a transaction, the lock ends with it.
      await execute(manager, `select pg_advisory_xact_lock(${UPSERT_LOCK}, hashtext($1::text))`, [id]);
      const before = await manager.findOneBy(DefinitionEntity, { id, version });
      const [stored] = await rows<DefinitionEntity & { readonly created: boolean }>(manager, UPSERT, [
        maxVersions,
        ...NEW_VERSION.params([values]),
      ]);
      if (!stored) return null;
      const defaults = inputReferences(Object(row.inputSpecs));
      const [missing] = await replaceFileUses(manager, fileUser(id, version), {
        defaults,
        options: row.options,
      });
      if (missing !== undefined) {
        const place = JSON.stringify(defaults).includes(missing) ? 'input_specs' : 'artifacts';
        throw new InvalidRequest(VALIDATION_FAILED, [`${place}: there is no file '${missing}'`]);
      }
      const { created, ...stays } = stored;
      await recordChange(manager, by, {
        action: created ? 'definition.create' : 'definition.replace',
        subject: `${id}/${version}`,
        ...(before ? replacedFields(before, stays) : { before: {}, after: { image: row.image } }),
      });
      return { row: stays, created };
    });
  }

  /** Removes one version, or all of them, and records it in the audit log. @returns their number */
  remove(id: string, version: string | undefined, by: Author): Promise<number> {
    return this.definitions.manager.transaction(async (manager) => {
      const { raw } = await manager
        .createQueryBuilder()
        .delete()
        .from(DefinitionEntity)
        .where(version === undefined ? { id } : { id, version })
        .returning(['version', 'image'])
        .execute();
      const removed: { readonly version: string; readonly image: string }[] = raw;
      const users = removed.map((one) => fileUser(id, one.version).id);
      await unuseFiles(manager, 'definition', users);
      if (removed.length > 0) {
        await recordChange(manager, by, {
          action: 'definition.delete',
          subject: version === undefined ? id : `${id}/${version}`,
          before: Object.fromEntries(removed.map((row) => [row.version, row.image])),
          after: {},
        });
      }
      return removed.length;
    });
  }

  /** The versions with these names, `ID/VERSION`, or `ID` for the one that was created last. */
  async findNamed(names: readonly string[]): Promise<ReadonlyMap<string, DefinitionEntity>> {
    const found = await rows<DefinitionEntity & { readonly named: string }>(
      this.definitions.manager,
      `select d.*, v.named
         from (select named, split_part(named, '/', 1) as id, nullif(split_part(named, '/', 2), '') as version
                 from unnest($1::text[]) as named) v
        cross join lateral (
          select ${DEFINITIONS.select('o')}
            from ${DEFINITIONS.name} o
           where o.id = v.id
             and (v.version is null or o.version = v.version)
           order by o.created_at desc, o.creation_order desc
           limit 1
        ) d`,
      [names],
    );
    return new Map(found.map(({ named, ...definition }) => [named, definition]));
  }

  /** One version, or the one that was created last. */
  find(id: string, version?: string): Promise<DefinitionEntity | null> {
    return this.definitions.findOne({
      where: version === undefined ? { id } : { id, version },
      order: { createdAt: 'DESC', creationOrder: 'DESC' },
    });
  }

  /** Up to 500 names of definitions, from those on that begin with the first letter of a name: one index step each. */
  async listNamesLike(name: string): Promise<string[]> {
    const found = await rows<{ readonly id: string }>(
      this.definitions.manager,
      `with recursive names(id, n) as (
         (select id, 1 from ${DEFINITIONS.name} where id >= left($1::text, 1) order by id limit 1)
         union all
         select next.id, names.n + 1
           from names
          cross join lateral (
            select id from ${DEFINITIONS.name} d where d.id > names.id order by id limit 1
          ) next
          where names.n < 500
       )
       select id from names`,
      [name],
    );
    return found.map(({ id }) => id);
  }

  /** Versions of one definition, newest first. @param after the page starts after it */
  listVersions(id: string, limit: number, after?: VersionPlace): Promise<DefinitionEntity[]> {
    const query = this.definitions
      .createQueryBuilder('d')
      .where('d.id = :id', { id })
      .orderBy('d.createdAt', 'DESC')
      .addOrderBy('d.creationOrder', 'DESC')
      .limit(limit);
    if (after) {
      const { createdAt, creationOrder } = after;
      query.andWhere('(d.createdAt, d.creationOrder) < (:createdAt, :creationOrder)', {
        createdAt,
        creationOrder,
      });
    }
    return query.getMany();
  }

  /** The newest version of every definition whose id is after `after` and contains `search`: one index step each. */
  listLatest(limit: number, after: string, search: string): Promise<LatestDefinition[]> {
    return rows<LatestDefinition>(
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
           select ${DEFINITIONS.select('d')}
             from ${DEFINITIONS.name} d
            where d.id = names.id
            order by d.created_at desc, d.creation_order desc
            limit 1
         ) latest
        order by names.id`,
      [after, search, limit],
    );
  }

  /** Versions of all definitions by id, oldest version first. @param after the page starts after it */
  list(limit: number, after?: VersionPlace & Pick<DefinitionEntity, 'id'>): Promise<DefinitionEntity[]> {
    const query = this.definitions
      .createQueryBuilder('d')
      .orderBy('d.id')
      .addOrderBy('d.createdAt')
      .addOrderBy('d.creationOrder')
      .limit(limit);
    if (after) {
      const { id, createdAt, creationOrder } = after;
      // The condition on the id alone lets the index on ids find the start of the page.
      query
        .where('d.id >= :id', { id })
        .andWhere('(d.id, d.createdAt, d.creationOrder) > (:id, :createdAt, :creationOrder)', {
          createdAt,
          creationOrder,
        });
    }
    return query.getMany();
  }
}

/** The fields that a replacement changed, as the API has them, before and after it. */
function replacedFields(
  before: DefinitionEntity,
  after: DefinitionEntity,
): { readonly before: object; readonly after: object } {
  const old = contentOf(before);
  const now = contentOf(after);
  return { before: differing(old, now), after: differing(now, old) };
}

function contentOf(row: DefinitionEntity): Map<string, unknown> {
  const {
    createdAt: _createdAt,
    updatedAt: _updatedAt,
    created_by: _createdBy,
    updated_by: _updatedBy,
    ...content
  } = toDefinitionDto(row);
  return new Map(Object.entries(content));
}

/** The entries whose value is another, or none, in the other map. */
function differing(entries: ReadonlyMap<string, unknown>, other: ReadonlyMap<string, unknown>): object {
  return Object.fromEntries(
    [...entries].filter(([field, value]) => stringifyJson(value) !== stringifyJson(other.get(field))),
  );
}
