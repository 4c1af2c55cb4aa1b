import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';
import { nearestName } from '@longshore/common/nearest-name';
import { textProblem } from '../../common/http/validation/dto-decorators.js';
import { NAME } from '../../definitions/dto/create-definition.dto.js';
import { mapEntries } from '../../runs/options/run-artifacts.js';
import { nameRuns } from '../../runs/options/output-sources.js';

/** A member of a group that is to be made. */
export interface PlannedMember {
  readonly ref: string;
  readonly id: string;
  /** Place in the request. */
  readonly at: number;
  /** The body of its request, with ids in place of names. */
  readonly body: JsonObject;
}

/**
 * The members of a group in an order in which each comes after those that it waits for.
 * @param newId makes the id of a run
 * @returns or one line for each problem
 */
export function planMembers(
  runs: readonly JsonObject[],
  newId: () => string,
): { readonly members: readonly PlannedMember[] } | { readonly problems: readonly string[] } {
  const problems: string[] = [];
  const ids = new Map<string, string>();
  const refs = runs.map(({ ref }, at) => {
    const problem = textProblem(ref, NAME, `runs[${at}].ref`);
    if (problem !== undefined || typeof ref !== 'string')
      problems.push(problem ?? `runs[${at}].ref must be a text`);
    else if (ids.has(ref)) problems.push(`runs[${at}].ref: '${ref}' is that of an earlier run`);
    else ids.set(ref, newId());
    return typeof ref === 'string' ? ref : '';
  });
  if (problems.length > 0) return { problems };
  const idOf = (ref: JsonValue | undefined, path: string): string | undefined => {
    const id = typeof ref === 'string' ? ids.get(ref) : undefined;
    if (id !== undefined) return id;
    const nearest = typeof ref === 'string' ? nearestName(ref, ids.keys()) : undefined;
    problems.push(
      `${path}: there is no run ${JSON.stringify(ref)} in the group${nearest === undefined ? '' : `: did you mean '${nearest}'?`}`,
    );
    return undefined;
  };
  const parents = new Map<string, readonly string[]>();
  const members = runs.map((run, at): PlannedMember => {
    const { ref: _ref, ...rest } = run;
    const own: string[] = [];
    const dependsOn = rest['depends_on'];
    const named = Array.isArray(dependsOn)
      ? dependsOn.map((one, n) => {
          if (!isJsonObject(one) || !('ref' in one)) return one;
          const { ref, ...other } = one;
          const id = idOf(ref, `runs[${at}].depends_on[${n}].ref`);
          if (id !== undefined && typeof ref === 'string') own.push(ref);
          return { ...other, run: id ?? '' };
        })
      : dependsOn;
    const { inputs, artifacts } = rest;
    const ref = refs[at] ?? '';
    const sourceOf = (source: JsonValue | undefined, path: string): JsonValue => {
      if (!isJsonObject(source) || typeof source['ref'] !== 'string') return source ?? null;
      const { ref: member, ...others } = source;
      const place = `runs[${at}].artifacts.in.${path}.ref`;
      const id = idOf(member, place);
      if (id !== undefined && !own.includes(member))
        problems.push(`${place}: '${member}' is not in depends_on`);
      return { ...others, run: id ?? '' };
    };
    parents.set(ref, own);
    return {
      ref,
      id: ids.get(ref) ?? '',
      at,
      body: {
        ...rest,
        ...(named !== undefined && { depends_on: named }),
        ...(isJsonObject(inputs) && {
          inputs: nameRuns(inputs, 'ref', (source, name) =>
            idOf(source, `runs[${at}].inputs.${name}.$from.ref`),
          ),
        }),
        ...(isJsonObject(artifacts) &&
          isJsonObject(artifacts['in']) && {
            artifacts: { ...artifacts, in: mapEntries(artifacts['in'], sourceOf) },
          }),
      },
    };
  });
  if (problems.length > 0) return { problems };
  const order = inOrder(parents);
  if ('cycle' in order) return { problems: [`runs wait for each other: ${order.cycle.join(' -> ')}`] };
  const byRef = new Map(members.map((member) => [member.ref, member]));
  return { members: order.refs.flatMap((ref) => byRef.get(ref) ?? []) };
}

/** Names so that each comes after its parents, all of which are among them; or names of which each waits for the next, and the last for the first. */
export function inOrder(
  parents: ReadonlyMap<string, readonly string[]>,
): { readonly refs: readonly string[] } | { readonly cycle: readonly string[] } {
  const children = new Map<string, string[]>();
  const open = new Map<string, number>();
  for (const [ref, own] of parents) {
    open.set(ref, own.length);
    for (const parent of own) children.set(parent, [...(children.get(parent) ?? []), ref]);
  }
  const refs = [...parents.keys()].filter((ref) => open.get(ref) === 0);
  for (const ref of refs) {
    for (const child of children.get(ref) ?? []) {
      const left = (open.get(child) ?? 0) - 1;
      open.set(child, left);
      if (left === 0) refs.push(child);
    }
  }
  const [first] = [...open].find(([, left]) => left > 0) ?? [];
  if (first === undefined) return { refs };
  const path: string[] = [];
  for (let at: string | undefined = first; at !== undefined && !path.includes(at);) {
    path.push(at);
    at = parents.get(at)?.find((parent) => (open.get(parent) ?? 0) > 0);
    if (at !== undefined && path.includes(at)) return { cycle: [...path.slice(path.indexOf(at)), at] };
  }
  return { cycle: path };
}
