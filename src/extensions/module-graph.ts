import type { ModuleMetadata, Type } from '@nestjs/common';
import { MODULE_METADATA } from '@nestjs/common/constants.js';

/** What modules declare, together with the modules that they import. */
export interface ModuleGraph {
  readonly controllers: readonly Type[];
  /** The modules, their controllers and the classes or tokens of their providers. */
  readonly declared: ReadonlySet<unknown>;
}

type Entry = NonNullable<ModuleMetadata['imports']>[number];

/** Reads the metadata of modules, without creating any of them. */
export async function readModuleGraph(modules: readonly Type[]): Promise<ModuleGraph> {
  const controllers = new Set<Type>();
  const declared = new Set<unknown>();
  const pending: (Entry | undefined)[] = [...modules];
  while (pending.length > 0) {
    const entry = await pending.shift();
    // Nest reports an import that is undefined because two files import each other.
    if (entry === undefined || declared.has(entry)) continue;
    declared.add(entry);
    if ('forwardRef' in entry) {
      pending.push(entry.forwardRef());
      continue;
    }
    if ('module' in entry) pending.push(entry.module);
    const metadata = 'module' in entry ? entry : metadataOf(entry);
    for (const controller of metadata.controllers ?? []) controllers.add(controller);
    for (const provider of metadata.providers ?? []) {
      declared.add('provide' in provider ? provider.provide : provider);
    }
    pending.push(...(metadata.imports ?? []));
  }
  for (const controller of controllers) declared.add(controller);
  return { controllers: [...controllers], declared };
}

function metadataOf(module: Type): ModuleMetadata {
  return {
    imports: Reflect.getMetadata(MODULE_METADATA.IMPORTS, module),
    controllers: Reflect.getMetadata(MODULE_METADATA.CONTROLLERS, module),
    providers: Reflect.getMetadata(MODULE_METADATA.PROVIDERS, module),
  };
}
