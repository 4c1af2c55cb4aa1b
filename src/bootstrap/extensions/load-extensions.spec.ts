import 'reflect-metadata';
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { loadExtensions } from './load-extensions.js';

const PRELUDE = `
import { Controller, Get, Module } from '@nestjs/common';
import { Entity, PrimaryColumn } from 'typeorm';
export class Empty {}
const declare = (decorators, target) => decorators.forEach((decorator) => decorator(target)) ?? target;
const method = (decorator, target, name) =>
  decorator(target.prototype, name, Object.getOwnPropertyDescriptor(target.prototype, name));
`;
const MODULE = `export const Added = declare([Module({ providers: [Empty] })], class Added {});\n`;

const load = (...paths: string[]) => loadExtensions({ extensions: paths.join(',') });

async function rejects(path: string, cause: RegExp): Promise<void> {
  await assert.rejects(load(path), ({ problems }: { problems: readonly string[] }) => {
    const [problem = '', ...more] = problems;
    assert.ok(problem.startsWith(`SERVICE_EXTENSIONS: '${path}' `) && !problem.includes('\n'), problem);
    assert.match(problem, cause);
    return more.length === 0;
  });
}

describe('a file of SERVICE_EXTENSIONS', () => {
  let folder: string;
  let files = 0;

  beforeAll(async () => {
    // Inside the project, so that its packages are found from there.
    const parent = join(import.meta.dirname, '..', '..', '..', '.build');
    await mkdir(parent, { recursive: true });
    folder = await mkdtemp(join(parent, 'extensions-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** Writes a file. @returns its path */
  async function file(code: string): Promise<string> {
    files += 1;
    const path = join(folder, `extension-${files}.mjs`);
    await writeFile(path, PRELUDE + code);
    return path;
  }

  test('adds every class with @Module that it exports, once, and no other class', async () => {
    const one = await file(MODULE + 'export { Added as default };');
    const two = await file(
      'export const Configured = declare([Module({})], class Configured { configure() {} });' +
        'export const entities = [];',
    );
    const { modules, summary } = await load(one, two);
    assert.deepEqual(
      modules.map(({ name }) => name),
      ['Added', 'Configured'],
    );
    assert.deepEqual(summary, [
      { file: one, modules: ['Added'], strategies: [] },
      { file: two, modules: ['Configured'], strategies: [] },
    ]);
  });

  test('adds its entities and migrations', async () => {
    const path = await file(
      MODULE +
        `const Budget = declare([Entity('budgets')], class Budget {});
         class AddBudgets1795000000000 { up() {} down() {} }
         export const entities = [Budget], migrations = [AddBudgets1795000000000];`,
    );
    const { entities, migrations } = await load(path);
    assert.deepEqual(
      [...entities, ...migrations].map(({ name }) => name),
      ['Budget', 'AddBudgets1795000000000'],
    );
  });

  test('is optional: without one nothing is added', async () => {
    assert.deepEqual((await loadExtensions({ extensions: undefined })).modules, []);
    assert.deepEqual((await load(' ', '')).modules, []);
  });

  for (const [what, code, cause] of [
    ['has no module', '', /exports no class decorated with @Module$/],
    ['throws', 'throw new Error("no\\n way")', /cannot be loaded: no way$/],
    ['is no JavaScript', 'export class {', /cannot be loaded: /],
    [
      'imports what is not there',
      'import "not-installed";',
      /cannot be loaded: Cannot find package 'not-installed'/,
    ],
    [
      'has entities that are no array',
      MODULE + 'export const entities = Empty;',
      /entities that are not an array of classes/,
    ],
    [
      'has migrations that are no classes',
      MODULE + 'export const migrations = ["*.js"];',
      /migrations that are not an array of classes/,
    ],
    [
      'has an entity without @Entity',
      MODULE + 'export const entities = [Empty];',
      /entities of which 'Empty' is not decorated with @Entity/,
    ],
    [
      "has an entity for a table of the service's",
      MODULE + `export const entities = [declare([Entity('runs')], class Mine {})];`,
      /the entity 'Mine', but the table 'runs' has one already/,
    ],
    [
      'has a migration without down',
      MODULE + 'class Half1795000000000 { up() {} }; export const migrations = [Half1795000000000];',
      /'Half1795000000000' has no methods up and down/,
    ],
    [
      'has a migration without a timestamp',
      MODULE + 'class AddIt { up() {} down() {} }; export const migrations = [AddIt];',
      /the migration 'AddIt', whose name does not end in 13 digits/,
    ],
    [
      "has a migration with a name of the service's",
      MODULE +
        'class Baseline1795000000001 { up() {} down() {} }; export const migrations = [Baseline1795000000001];',
      /the migration 'Baseline1795000000001', but there is one of this name already/,
    ],
    [
      'has a route without a declared access, also in a module that it imports',
      `class Open { get() {} }; declare([Controller('open')], Open); method(Get(), Open, 'get');
       const Inner = declare([Module({ controllers: [Open] })], class Inner {});
       export const Outer = declare([Module({ imports: [Promise.resolve({ module: Empty, imports: [Inner] })] })], class Outer {});`,
      /has routes without @AllowScopes\(...\) or @Public\(\): Open.get$/,
    ],
  ] as const) {
    test(`is refused when it ${what}`, async () => {
      await rejects(await file(code), cause);
    });
  }

  test('is refused when it is not there', async () => {
    await rejects(join(folder, 'missing.mjs'), /cannot be loaded: ENOENT/);
  });

  test('is refused when another file has the same table or migration', async () => {
    const table = MODULE + `export const entities = [declare([Entity('shared')], class One {})];`;
    const [one, two] = [await file(table), await file(table)];
    await assert.rejects(load(one, two), {
      message: new RegExp(`'${two}' .* the table 'shared' has one already`),
    });
    const migration =
      MODULE + 'class Add1795000000000 { up() {} down() {} }; export const migrations = [Add1795000000000];';
    const [three, four] = [await file(migration), await file(migration)];
    await assert.rejects(load(three, four), {
      message: new RegExp(`'${four}' .* there is one of this name already`),
    });
  });

  test('is refused when it would load a second copy of a package that it must share', async () => {
    const outside = join(folder, 'outside');
    const copy = join(outside, 'node_modules', '@nestjs', 'common');
    await mkdir(copy, { recursive: true });
    await writeFile(join(copy, 'package.json'), '{ "name": "@nestjs/common" }');
    await writeFile(join(outside, 'index.mjs'), 'export class X {}');
    await rejects(
      join(outside, 'index.mjs'),
      /cannot be loaded: @nestjs\/common would be loaded a second time, from .*outside/,
    );
    await symlink(join(outside, 'index.mjs'), join(folder, 'link.mjs'));
    await rejects(join(folder, 'link.mjs'), /@nestjs\/common would be loaded a second time/);
  });
});
