import type { InjectionToken, ModuleMetadata, Type } from '@nestjs/common';
import { MODULE_METADATA } from '@nestjs/common/constants.js';
import { existsSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { packageFolder } from '@longshore/common/settings/package-version';
import { pathToFileURL } from 'node:url';
import { RuntimeException } from '@nestjs/core/errors/exceptions/runtime.exception.js';
import { UnknownDependenciesException } from '@nestjs/core/errors/exceptions/unknown-dependencies.exception.js';
import { undeclaredRoutes } from '../../auth/access.js';
import type { EntityClass, MigrationClass, SchemaClasses } from '../../database/data-source.js';
import { UnknownEntities } from '../../database/database.module.js';
import { SettingsError } from '@longshore/common/settings/setting';
import type { Settings } from '../../config/settings.js';
import { exportedStrategies } from '../../claims/strategies/scheduler.js';
import { collisionOf, entitiesOf, migrationsOf } from './extension-schema.js';
import { errorText } from '@longshore/common/errors';

/** What modules declare, together with the modules that they import. */
interface ModuleGraph {
  readonly controllers: readonly Type[];
  /** The names by which Nest reports the modules, their controllers and their providers. */
  readonly names: ReadonlySet<string>;
}

type Entry = NonNullable<ModuleMetadata['imports']>[number];

/** Reads the metadata of modules, without creating any of them. */
async function readModuleGraph(modules: readonly Type[]): Promise<ModuleGraph> {
  const controllers = new Set<Type>();
  const names = new Set<string>();
  const read = new Set<Entry>();
  const pending: (Entry | undefined)[] = [...modules];
  while (pending.length > 0) {
    const entry = await pending.shift();
    // Nest reports an import that is undefined because two files import each other.
    if (entry === undefined || read.has(entry)) continue;
    read.add(entry);
    if ('forwardRef' in entry) {
      pending.push(entry.forwardRef());
      continue;
    }
    if ('module' in entry) pending.push(entry.module);
    else names.add(entry.name);
    const metadata = 'module' in entry ? entry : metadataOf(entry);
    for (const controller of metadata.controllers ?? []) {
      controllers.add(controller);
      names.add(controller.name);
    }
    for (const provider of metadata.providers ?? []) {
      names.add(nameOf('provide' in provider ? provider.provide : provider));
    }
    pending.push(...(metadata.imports ?? []));
  }
  return { controllers: [...controllers], names };
}

function nameOf(token: InjectionToken): string {
  return typeof token === 'function' ? token.name : String(token);
}

function metadataOf(module: Type): ModuleMetadata {
  return {
    imports: Reflect.getMetadata(MODULE_METADATA.IMPORTS, module),
    controllers: Reflect.getMetadata(MODULE_METADATA.CONTROLLERS, module),
    providers: Reflect.getMetadata(MODULE_METADATA.PROVIDERS, module),
  };
}

/** Packages whose classes or registries the service and its extensions must share. */
const SHARED_PACKAGES = [
  '@nestjs/common',
  '@nestjs/config',
  '@nestjs/core',
  '@nestjs/schedule',
  '@nestjs/typeorm',
  'class-transformer',
  'longshore',
  'typeorm',
] as const;

/**
 * The shared packages of which a file would load a second copy, each with the folder of that copy. Nest would not inject
 * the service's providers by the classes of another copy, and the service would not recognise its exceptions.
 */
function secondCopies(file: string): { readonly name: string; readonly folder: string }[] {
  return SHARED_PACKAGES.flatMap((name) => {
    const folder = findPackage(name, file);
    const ours =
      name === 'longshore'
        ? realpathSync(packageFolder(import.meta.dirname))
        : findPackage(name, import.meta.filename);
    return folder === undefined || folder === ours ? [] : [{ name, folder }];
  });
}

/** The folder in which Node.js finds a package for the imports of a file. */
function findPackage(name: string, file: string): string | undefined {
  const folders = (createRequire(file).resolve.paths(name) ?? []).map((folder) => join(folder, name));
  const found = folders.find((folder) => existsSync(join(folder, 'package.json')));
  return found === undefined ? undefined : realpathSync(found);
}

/** What one file of SERVICE_EXTENSIONS adds to the service. */
interface ExtensionFile extends SchemaClasses {
  /** As SERVICE_EXTENSIONS names it. */
  readonly path: string;
  readonly modules: readonly Type[];
  readonly graph: ModuleGraph;
}

/** What the log says of a file of SERVICE_EXTENSIONS. */
interface ExtensionSummary {
  readonly file: string;
  readonly modules: readonly string[];
  readonly strategies: readonly string[];
}

/** The modules, entities and migrations of all files of SERVICE_EXTENSIONS. */
export class Extensions implements SchemaClasses {
  readonly modules: readonly Type[];
  readonly entities: readonly EntityClass[];
  readonly migrations: readonly MigrationClass[];

  constructor(private readonly files: readonly ExtensionFile[]) {
    this.modules = files.flatMap(({ modules }) => modules);
    this.entities = files.flatMap(({ entities }) => entities);
    this.migrations = files.flatMap(({ migrations }) => migrations);
  }

  /** The names of the classes that each file brings. */
  get summary(): readonly ExtensionSummary[] {
    return this.files.map(({ path, modules }) => ({
      file: path,
      modules: modules.map(({ name }) => name),
      strategies: modules.flatMap(exportedStrategies).map(({ name }) => name),
    }));
  }

  /**
   * Runs a step of the start that builds the application.
   * @throws SettingsError in place of an error about how modules are composed: the service's own fit together, so the
   * cause is in an extension
   */
  async explain<T>(step: () => Promise<T>): Promise<T> {
    try {
      return await step();
    } catch (error) {
      const isComposition = error instanceof RuntimeException || error instanceof UnknownEntities;
      if (this.files.length === 0 || !isComposition) throw error;
      const name = error instanceof UnknownDependenciesException ? String(error.type) : '';
      const origin = this.files.filter(({ graph }) => graph.names.has(name));
      const paths = (origin.length > 0 ? origin : this.files).map(({ path }) => path);
      const [reason = ''] = error.message.split(/\n\n/);
      throw problem(paths.join(', '), `cannot be used: ${reason}`);
    }
  }
}

/**
 * Loads the files of SERVICE_EXTENSIONS.
 * @throws SettingsError with one line that names a file when it cannot be loaded, exports no module, or brings
 * something that the service does not support
 */
export async function loadExtensions({ extensions = '' }: Pick<Settings, 'extensions'>): Promise<Extensions> {
  const files: ExtensionFile[] = [];
  for (const path of extensions.split(',').map((entry) => entry.trim())) {
    if (path !== '') files.push(await readExtension(path));
  }
  for (const [index, { path, entities, migrations }] of files.entries()) {
    const collision = collisionOf({ entities, migrations }, files.slice(0, index));
    if (collision !== undefined) throw problem(path, collision);
  }
  return new Extensions(files);
}

async function readExtension(path: string): Promise<ExtensionFile> {
  try {
    const content: Readonly<Record<string, unknown>> = await importFile(resolve(path));
    const modules = [...new Set(Object.values(content))].filter(isModule);
    if (modules.length === 0) throw new Error('exports no class decorated with @Module');
    const entities = entitiesOf(content['entities']);
    const migrations = migrationsOf(content['migrations']);
    const graph = await readModuleGraph(modules);
    const routes = graph.controllers.flatMap(undeclaredRoutes);
    if (routes.length > 0) {
      throw new Error(`has routes without @AllowScopes(...) or @Public(): ${routes.join(', ')}`);
    }
    return { path, modules, entities, migrations, graph };
  } catch (error) {
    throw problem(path, errorText(error));
  }
}

async function importFile(file: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const [copy] = secondCopies(realpathSync(file));
    if (copy !== undefined)
      throw new Error(`${copy.name} would be loaded a second time, from ${copy.folder}`);
    return await import(pathToFileURL(file).href);
  } catch (error) {
    throw new Error(`cannot be loaded: ${errorText(error)}`, {
      cause: error,
    });
  }
}

/** `@Module({})` leaves no metadata: without a `configure` method such a class adds nothing. */
function isModule(value: unknown): value is Type {
  if (typeof value !== 'function') return false;
  const keys: readonly string[] = Object.values(MODULE_METADATA);
  if (keys.some((key) => Reflect.hasOwnMetadata(key, value))) return true;
  const prototype: unknown = value.prototype;
  return typeof prototype === 'object' && prototype !== null && 'configure' in prototype;
}

function problem(path: string, what: string): SettingsError {
  return new SettingsError([`SERVICE_EXTENSIONS: '${path}' ${what.replaceAll(/\s+/g, ' ').trim()}`]);
}
