import { Injectable } from '@nestjs/common';
import { composeJson, memberTexts } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import type { Caller } from '../../auth/access.js';
import { DomainError, InvalidRequest, linesOf } from '../../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import type { GroupEntity } from '../../database/entities/group.entity.js';
import { RunBodies } from '../../definitions/run-bodies.js';
import type { Facts } from '../../definitions/templates/template-text.js';
import type { LabelChanges, NewRun } from '../../runs/machine/run.js';
import type { Member } from '../../runs/runs.service.js';
import { RunsService } from '../../runs/runs.service.js';

/** What all members of a group have. */
export interface MemberContext {
  readonly group: Pick<GroupEntity, 'id' | 'maxParallel'>;
  readonly labels: LabelChanges | null;
  /** Inputs under those of the members. */
  readonly shared: JsonObject;
  readonly schedule?: { readonly id: string; readonly time: string } | undefined;
  /** What texts may refer to beside what the member itself has. */
  readonly facts?: Facts;
  readonly caller?: Caller | undefined;
  readonly trace?: TraceContext | null;
}

/** What texts of members may refer to beside inputs. */
const MEMBER_FACTS = ['run.id', 'run.name', 'group.id'] as const;
const ARRAY_FACTS = ['array.index', 'array.size'] as const;

/** What a member may not have. */
const FORBIDDEN = ['start_at'] as const;

/** Makes runs of the bodies of groups. */
@Injectable()
export class MemberRuns {
  constructor(
    private readonly bodies: RunBodies,
    private readonly runs: RunsService,
  ) {}

  /** The run of a member. @param id of the run @throws DomainError if there can be none */
  async make(
    body: JsonObject,
    id: string,
    member: Omit<Member, 'groupId'>,
    { group, labels, shared, schedule, facts = {}, caller, trace }: MemberContext,
  ): Promise<NewRun> {
    const { array } = member;
    const own = {
      ...facts,
      'run.id': id,
      'group.id': group.id,
      ...(array && { 'array.index': String(array.index), 'array.size': String(array.size) }),
    };
    const request = await this.bodies.request(body, { facts: own, labels, shared });
    const groupMember = { ...member, groupId: group.id };
    const fresh = this.runs.newRun(
      { ...request, schedule, member: groupMember },
      { caller, trace: trace ?? null },
    );
    if (fresh.hasFiles) await this.runs.checkFiles(fresh, caller);
    if (group.maxParallel === null) return fresh;
    return {
      ...fresh,
      concurrencyKey: `group:${group.id}`,
      concurrencyLimit: group.maxParallel,
      concurrencyOnLimit: null,
    };
  }

  /**
   * Refuses a body whose runs can never be made as it is meant.
   * @throws InvalidRequest with a line for each problem, DefinitionNotFound
   */
  async check(
    body: JsonObject,
    {
      group,
      shared,
      facts = {},
    }: Pick<MemberContext, 'shared' | 'facts'> & { readonly group: Pick<GroupEntity, 'maxParallel'> },
    isArray: boolean,
  ): Promise<void> {
    const problems = FORBIDDEN.filter((name) => (body[name] ?? null) !== null).map(
      (name) => `${name} must be absent`,
    );
    if (group.maxParallel !== null && (body['concurrency'] ?? null) !== null)
      problems.push('concurrency must be absent in a group with max_parallel');
    if (isArray && (body['depends_on'] ?? null) !== null)
      problems.push('depends_on must be absent: that of the group counts for all members');
    if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
    const known = new Set<string>([...MEMBER_FACTS, ...(isArray ? ARRAY_FACTS : []), ...Object.keys(facts)]);
    await this.bodies.check(body, known, shared);
  }

  /** The shared inputs that no body takes. */
  async untaken(bodies: readonly JsonObject[], shared: JsonObject): Promise<readonly string[]> {
    const names = Object.keys(shared);
    if (names.length === 0) return [];
    const taken = new Set<string>();
    for (const body of distinctKinds(bodies))
      for (const name of await this.bodies.inputsOf(body, names)) taken.add(name);
    return names.filter((name) => !taken.has(name));
  }
}

/** One body for each definition, and for none. */
function distinctKinds(bodies: readonly JsonObject[]): JsonObject[] {
  const kinds = new Map(
    bodies.map((body) => [JSON.stringify([body['definition'] ?? null, body['version'] ?? null]), body]),
  );
  return [...kinds.values()];
}

/** The body of the member of an array. @param inputs of this member, over those of the body */
export function bodyOfMember(run: JsonObject, inputs: JsonObject | undefined): JsonObject {
  if (inputs === undefined) return run;
  const { inputs: own } = run;
  const merged = new Map([...(isJsonObject(own) ? memberTexts(own) : []), ...memberTexts(inputs)]);
  return { ...run, inputs: composeJson(merged) };
}

/** One line for each problem of a member, with its place. @throws the error, if it is no problem of the member */
export function problemsOf(error: unknown, place: string): string[] {
  if (!(error instanceof DomainError) || error.kind === 'switched-off' || error.kind === 'unavailable')
    throw error;
  return linesOf(error, place);
}
