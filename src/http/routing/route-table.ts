/** What a request was found to be for, and the values of the parameters in its path, by name. */
export interface Match<T> {
  readonly route: T;
  readonly params: Readonly<Record<string, string>>;
}

interface Route<T> {
  readonly route: T;
  /** Names of the parameters, in the order in which the path holds them. */
  readonly names: readonly string[];
}

interface Node<T> {
  readonly children: Map<string, Node<T>>;
  anything: Node<T> | undefined;
  /** By method. */
  readonly routes: Map<string, Route<T>>;
}

const PARAMETER = /^:(\w+)$/;
const LITERAL = /^[\w.~-]*$/;
const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze(Object.create(null));

/**
 * Routes by method and path. A path consists of literal segments and of segments that are one parameter (`:id`); where
 * both fit, the literal wins. Matching is exact: case counts, and so does a slash at the end.
 */
export class RouteTable<T> {
  readonly #root: Node<T> = newNode();

  /**
   * @param path such as `/runs/:id/events`
   * @returns whether the route was taken: it is not when the path holds anything but literals and parameters, or when
   * the method and path are taken already
   */
  add(method: string, path: string, route: T): boolean {
    const segments = path.slice(1).split('/');
    if (!segments.every((segment) => LITERAL.test(segment) || PARAMETER.test(segment))) return false;
    let node = this.#root;
    const names: string[] = [];
    for (const segment of segments) {
      const name = PARAMETER.exec(segment)?.[1];
      if (name === undefined) node = childOf(node, segment);
      else {
        names.push(name);
        node = node.anything ??= newNode();
      }
    }
    if (node.routes.has(method)) return false;
    node.routes.set(method, { route, names });
    return true;
  }

  /**
   * Finds the route of a request.
   * @param target the request's, with its query: `/runs/1?x=y`
   * @returns undefined when there is none, or when the target is not a plain path whose parameters can be decoded
   */
  find(method: string, target: string): Match<T> | undefined {
    const query = target.indexOf('?');
    const path = query < 0 ? target : target.slice(0, query);
    if (!path.startsWith('/') || path.includes('#')) return undefined;
    const values: string[] = [];
    const found = descend(this.#root, path, 1, method, values);
    if (found === undefined) return undefined;
    if (found.names.length === 0) return { route: found.route, params: NO_PARAMS };
    const params = paramsOf(found.names, values);
    return params && { route: found.route, params };
  }
}

function newNode<T>(): Node<T> {
  return { children: new Map(), anything: undefined, routes: new Map() };
}

function childOf<T>(node: Node<T>, segment: string): Node<T> {
  const known = node.children.get(segment);
  if (known !== undefined) return known;
  const child = newNode<T>();
  node.children.set(segment, child);
  return child;
}

/** @param values is given the parameters on the way to the route that is found */
function descend<T>(
  node: Node<T>,
  path: string,
  from: number,
  method: string,
  values: string[],
): Route<T> | undefined {
  const slash = path.indexOf('/', from);
  const segment = slash < 0 ? path.slice(from) : path.slice(from, slash);
  const child = node.children.get(segment);
  if (child !== undefined) {
    const found = slash < 0 ? child.routes.get(method) : descend(child, path, slash + 1, method, values);
    if (found !== undefined) return found;
  }
  const { anything } = node;
  if (anything === undefined || segment === '') return undefined;
  values.push(segment);
  const found = slash < 0 ? anything.routes.get(method) : descend(anything, path, slash + 1, method, values);
  if (found === undefined) values.pop();
  return found;
}

function paramsOf(names: readonly string[], values: readonly string[]): Record<string, string> | undefined {
  const params: Record<string, string> = Object.create(null);
  for (const [index, name] of names.entries()) {
    const value = decode(values[index] ?? '');
    if (value === undefined) return undefined;
    params[name] = value;
  }
  return params;
}

function decode(text: string): string | undefined {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
