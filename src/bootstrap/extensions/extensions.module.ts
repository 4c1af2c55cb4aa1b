import { Module, type DynamicModule, type Type } from '@nestjs/common';
import { RunsModule } from '../../runs/runs.module.js';

/** Imports the modules of extensions, and makes the providers that RunsModule exports injectable in them. */
@Module({})
export class ExtensionsModule {
  static register(modules: readonly Type[]): DynamicModule {
    return {
      module: ExtensionsModule,
      global: true,
      imports: [RunsModule, ...modules],
      exports: [RunsModule],
    };
  }
}
