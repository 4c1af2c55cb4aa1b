import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Type } from '@nestjs/common';
import { SettingsError } from './settings/load-settings.js';
import type { Settings } from './settings/settings.js';
import { exportedStrategies } from './workers/strategies/exported-strategies.js';

/**
 * Loads the files of SERVICE_EXTENSIONS and answers the modules in them.
 * @throws SettingsError when a file cannot be loaded or has no module that exports a scheduling strategy
 */
export async function loadExtensions({ extensions = '' }: Pick<Settings, 'extensions'>): Promise<Type[]> {
  const modules: Type[] = [];
  for (const path of extensions.split(',').map((entry) => entry.trim())) {
    if (path !== '') modules.push(...(await modulesIn(path)));
  }
  return modules;
}

async function modulesIn(path: string): Promise<Type[]> {
  const content = await load(path);
  const modules = [...new Set(Object.values(content))].filter(isModuleWithStrategy);
  if (modules.length > 0) return modules;
  throw problem(path, 'exports no module that exports a scheduling strategy');
}

async function load(path: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await import(pathToFileURL(resolve(path)).href);
  } catch (error) {
    throw problem(path, `cannot be loaded: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function isModuleWithStrategy(value: unknown): value is Type {
  return exportedStrategies(value).length > 0;
}

function problem(path: string, what: string): SettingsError {
  return new SettingsError([`SERVICE_EXTENSIONS: '${path}' ${what}`]);
}
