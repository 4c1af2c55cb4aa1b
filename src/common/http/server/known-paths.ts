import type { Express, Request } from 'express';

/** The methods of the routes of a path, in the order of the alphabet; empty: there is no such path. */
export function methodsAt(app: Express, path: string): string[] {
  const methods = new Set<string>();
  for (const layer of app.router.stack) {
    if (layer.route === undefined || !matches(layer, path)) continue;
    for (const { method } of layer.route.stack) if (method) methods.add(method.toUpperCase());
  }
  return [...methods].toSorted();
}

/** Removes the `/` at the end of a path, which counts as none, unless there are routes of the path with it. */
export function ignoreLastSlash(app: Express, request: Request): void {
  const { url } = request;
  const query = url.indexOf('?');
  const last = (query < 0 ? url.length : query) - 1;
  if (last < 1 || url[last] !== '/' || methodsAt(app, url.slice(0, last + 1)).length > 0) return;
  request.url = url.slice(0, last) + url.slice(last + 1);
}

/** Express's types leave out the method that its own router calls. */
function matches(layer: object, path: string): boolean {
  try {
    return Boolean(Reflect.apply(Object(layer).match, layer, [path]));
  } catch (error) {
    // The path cannot be decoded.
    if (error instanceof URIError || Object(error).status === 400) return false;
    throw error;
  }
}
