import type { InjectionToken, ModuleMetadata, Type } from '@nestjs/common';
import { MODULE_METADATA } from '@nestjs/common/constants.js';

/** What modules declare, together with the modules that they import. */
export interface ModuleGraph {
  readonly controllers: readonly Type[];
  /** The names by which Nest reports the modules, their controllers and their providers. */
  readonly names: ReadonlySet<string>;
}

type Entry = NonNullable<ModuleMetadata['imports']>[number];

/** Reads the metadata of modules, without creating any of them. */
export async function readModuleGraph(modules: readonly Type[]): Promise<ModuleGraph> {
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
