import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Type } from '@nestjs/common';
import { MODULE_METADATA } from '@nestjs/common/constants.js';
import { RuntimeException } from '@nestjs/core/errors/exceptions/runtime.exception.js';
import { UnknownDependenciesException } from '@nestjs/core/errors/exceptions/unknown-dependencies.exception.js';
import { undeclaredRoutes } from '../../auth/access.js';
import type { EntityClass, MigrationClass, SchemaClasses } from '../../database/data-source.js';
import { UnknownEntities } from '../../database/known-entities.check.js';
import { SettingsError } from '@longshore/common/settings/setting';
import type { Settings } from '../../config/settings.js';
import { exportedStrategies } from '../../claims/strategies/scheduler.js';
import { collisionOf, entitiesOf, migrationsOf } from './extension-schema.js';
import { readModuleGraph, type ModuleGraph } from './module-graph.js';
import { secondCopies } from './shared-packages.js';

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
    throw problem(path, error instanceof Error ? error.message : String(error));
  }
}

async function importFile(file: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const [copy] = secondCopies(realpathSync(file));
    if (copy !== undefined)
      throw new Error(`${copy.name} would be loaded a second time, from ${copy.folder}`);
    return await import(pathToFileURL(file).href);
  } catch (error) {
    throw new Error(`cannot be loaded: ${error instanceof Error ? error.message : String(error)}`, {
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
