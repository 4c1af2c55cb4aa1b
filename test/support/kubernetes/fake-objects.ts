/* oxlint-disable typescript/no-explicit-any -- objects of an API server are of any shape */

/** Resources that the fake API server has. */
export type Resource = 'jobs' | 'pods' | 'secrets' | 'nodes' | 'events';

/** A version of an object as a watch reports it. */
export interface ObjectEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly resource: Resource;
  readonly version: number;
  readonly object: any;
}

/** Objects by resource, with the history that watches continue from. */
export class FakeObjects {
  readonly #objects = new Map<string, { readonly resource: Resource; readonly object: any }>();
  #history: ObjectEvent[] = [];
  #listeners = new Set<(event: ObjectEvent) => void>();
  /** Version of the newest change; unlike in a counter of its own, those of the start are never 0. */
  #version = 1000;
  /** Watches can begin at this version or a later one. */
  #oldest = 1000;

  get version(): number {
    return this.#version;
  }

  list(resource: Resource): any[] {
    return [...this.#objects.values()].flatMap((one) => (one.resource === resource ? [one.object] : []));
  }

  find(resource: Resource, name: string): any {
    return this.#objects.get(`${resource}/${name}`)?.object;
  }

  /** Creates or replaces an object, with the next version. @returns it as it is stored */
  put(resource: Resource, object: any): any {
    const key = `${resource}/${object.metadata.name}`;
    const type = this.#objects.has(key) ? 'MODIFIED' : 'ADDED';
    const stored = this.versioned(object);
    this.#objects.set(key, { resource, object: stored });
    this.tell({ type, resource, version: this.#version, object: stored });
    return stored;
  }

  /** @param last its last version; absent: the one that is stored */
  delete(resource: Resource, name: string, last?: any): void {
    const object = last ?? this.find(resource, name);
    if (!this.#objects.delete(`${resource}/${name}`)) return;
    const stored = this.versioned(object);
    this.tell({ type: 'DELETED', resource, version: this.#version, object: stored });
  }

  /** Forgets the history: a watch can only begin at the version of now. */
  forgetHistory(): void {
    this.#history = [];
    this.#oldest = this.#version + 1;
    this.#version += 1;
  }

  /** Changes after a version; null when they are no longer known. */
  since(version: number): readonly ObjectEvent[] | null {
    return version < this.#oldest ? null : this.#history.filter((event) => event.version > version);
  }

  /** @returns ends the calls */
  onChange(listener: (event: ObjectEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  private versioned(object: any): any {
    this.#version += 1;
    return { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version) } };
  }

  private tell(event: ObjectEvent): void {
    this.#history.push(event);
    for (const listener of this.#listeners) listener(event);
  }
}

/**
 * Whether an object satisfies a label selector such as `a=b,c` or a field selector such as `status.phase!=Failed`.
 * @throws Error for other forms
 */
export function matchesSelector(
  object: any,
  labelSelector: string | null,
  fieldSelector: string | null = null,
): boolean {
  const labels = object.metadata.labels ?? {};
  const fieldOf = (path: string) => path.split('.').reduce((value: any, name) => value?.[name], object);
  return (
    conditionsOf(labelSelector).every(({ name, operator, value }) =>
      operator === undefined ? name in labels : (labels[name] === value) === (operator === '='),
    ) &&
    conditionsOf(fieldSelector).every(
      ({ name, operator, value }) => (fieldOf(name) === value) === (operator === '='),
    )
  );
}

function conditionsOf(
  selector: string | null,
): readonly { name: string; operator?: string; value?: string }[] {
  return (selector ?? '').split(',').flatMap((part) => {
    if (part === '') return [];
    const [, name, operator, value] = /^([\w./-]+)(?:(!?=)=?([\w.-]*))?$/.exec(part) ?? [];
    if (name === undefined) throw new Error(`the fake API server does not know the selector ${part}`);
    return [operator === undefined ? { name } : { name, operator, value }];
  });
}

/** A merge patch (RFC 7386). */
export function mergePatch(target: any, patch: any): any {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const merged: any =
    typeof target === 'object' && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    else merged[name] = mergePatch(merged[name], value);
  }
  return merged;
}
