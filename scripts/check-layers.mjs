/* oxlint-disable no-console -- a command for the terminal */
// Part of `npm run lint`: checks that imports, those of types too, follow the table of layers, and that no two folders of one
// folder import each other.
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const BASE = ['packages/common', 'src/common', 'src/config', 'src/database'];
const CONTEXT = [...BASE, 'src/auth'];

/** What each layer may import beside itself and npm packages. A file belongs to the longest path that it begins with. */
const LAYERS = {
  'packages/common': [],
  'packages/client': [],
  'packages/embedded-postgres': ['packages/common'],
  'packages/worker': ['packages/common', 'packages/client'],
  'packages/launchers': ['packages/common', 'packages/client', 'packages/worker'],
  'packages/conformance': ['packages/common', 'packages/client'],
  'packages/cli': ['packages/common', 'packages/client', 'packages/worker'],
  'packages/dashboard': ['packages/client', 'packages/common'],
  migrations: ['src/database'],
  'src/common': [...BASE, 'src/auth/access'],
  'src/config': BASE,
  'src/database': BASE,
  'src/auth': CONTEXT,
  'src/health': CONTEXT,
  'src/files/stores': [...CONTEXT, 'src/health'],
  'src/files/uploads': [...CONTEXT, 'src/runs', 'src/files/stores'],
  'src/files/artifacts': [...CONTEXT, 'src/runs', 'src/files/stores', 'src/files/uploads'],
  'src/retention': [...CONTEXT, 'src/feed', 'src/files', 'src/runs'],
  'src/dashboard': CONTEXT,
  'src/feed': CONTEXT,
  'src/runs': [...CONTEXT, 'src/feed', 'src/health'],
  'src/run-logs': [...CONTEXT, 'src/runs', 'src/workers'],
  'src/workers': [...CONTEXT, 'src/runs', 'src/health'],
  'src/claims': [...CONTEXT, 'src/runs', 'src/workers', 'src/health'],
  'src/definitions': [...CONTEXT, 'src/runs'],
  'src/secrets': [...CONTEXT, 'src/runs'],
  'src/webhooks': [...CONTEXT, 'src/runs', 'src/secrets'],
  'src/schedules': [...CONTEXT, 'src/runs', 'src/definitions', 'src/groups'],
  src: ['src', 'migrations', 'packages/common', 'packages/embedded-postgres'],
  demo: ['src/config', 'packages'],
  test: ['src', 'migrations', 'demo', 'packages'],
};
/** Folders that import each other, in alphabetical order. A pair that is mended leaves the list; no pair joins it. */
const TWO_WAY = new Set([
  'packages/dashboard/src: api <-> session',
  'packages/dashboard/src: session <-> shell',
  'packages/dashboard/src/components: controls <-> feedback',
  'packages/worker/src: execution <-> logs',
  'packages/worker/src: process <-> runtime',
  'packages/worker/src: runtime <-> secrets',
  'src: auth <-> common',
  'src: common <-> database',
]);
const IMPORT = /\b(?:from|import\(|import)\s*['"]([^'"]+)['"]/g;

const isBelow = (path, folder) => path === folder || path.startsWith(`${folder}/`);

function findLayer(path) {
  const candidates = Object.keys(LAYERS).filter((layer) => isBelow(path, layer));
  return candidates.toSorted((left, right) => right.length - left.length)[0];
}

/** The path, below the project's folder and without its ending, of what a file imports; undefined for an npm package. */
function resolve(importer, name) {
  if (name.startsWith('@longshore/')) return name.replace('@longshore/', 'packages/');
  return name.startsWith('.') ? posix.join(posix.dirname(importer), name).replace(/\.\w+$/, '') : undefined;
}

/** The first folders in which two paths differ, below the folder that has both; undefined if one of them is a file. */
function siblings(path, target) {
  const [from, to] = [path.split('/'), target.split('/')];
  const depth = from.findIndex((part, i) => part !== to[i]);
  if (depth < 1 || depth >= from.length - 1 || depth >= to.length - 1) return undefined;
  return { parent: from.slice(0, depth).join('/'), from: from[depth], to: to[depth] };
}

let violations = 0;
const oneWay = new Map();
const twoWay = new Set();
for (const top of ['src', 'packages', 'migrations', 'demo', 'test']) {
  for (const name of await readdir(join(ROOT, top), { recursive: true })) {
    const path = posix.join(top, name);
    if (!/\.tsx?$/.test(path) || /node_modules|\/(?:dist|build)\//.test(path)) continue;
    const layer = findLayer(path);
    for (const [, imported] of (await readFile(join(ROOT, path), 'utf8')).matchAll(IMPORT)) {
      const target = resolve(path, imported);
      if (target === undefined) continue;
      const pair = /\.(?:spec|fixtures)\.|^test\//.test(path) ? undefined : siblings(path, target);
      if (pair !== undefined) {
        const [first, second] = pair.from < pair.to ? [pair.from, pair.to] : [pair.to, pair.from];
        const folders = `${pair.parent}: ${first} <-> ${second}`;
        if ((oneWay.get(folders) ?? pair.from) !== pair.from) twoWay.add(folders);
        else oneWay.set(folders, pair.from);
      }
      if (findLayer(target) === layer) continue;
      if (!LAYERS[layer].some((allowed) => isBelow(target, allowed))) {
        console.error(`${path} imports ${target}, which ${layer} must not (scripts/check-layers.mjs)`);
        violations += 1;
      }
    }
  }
}
for (const folders of twoWay) {
  if (TWO_WAY.has(folders)) continue;
  console.error(`${folders}: the folders import each other (scripts/check-layers.mjs)`);
  violations += 1;
}
for (const folders of TWO_WAY) {
  if (twoWay.has(folders)) continue;
  console.error(`${folders}: no longer two-way, remove it from the list (scripts/check-layers.mjs)`);
  violations += 1;
}
process.exitCode = violations === 0 ? 0 : 1;
