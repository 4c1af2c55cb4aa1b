import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { Injectable, Module, type Type } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { SettingsError } from '@longshore/common/settings/setting';
import { loadSettings } from '../config/settings.module.js';
import { Settings } from '../config/settings.js';
import { checkScheduler } from './check-scheduler.js';

/** A strategy of an extension; its choices do not matter here. */
class ExtensionStrategy {
  readonly name: string;
  candidatesFor(): void {}
  obstacles(): void {}
  choose(): void {}
}

@Injectable()
class NamedStrategy extends ExtensionStrategy {
  override readonly name = 'named';
}

@Injectable()
class NamedLikeDirect extends ExtensionStrategy {
  override readonly name = 'direct';
}

@Injectable()
class NamedBySettings extends ExtensionStrategy {
  override readonly name: string;

  constructor({ maxReclaims }: Settings) {
    super();
    this.name = `max-${maxReclaims}`;
  }
}

@Injectable()
class NamedByDatabase extends ExtensionStrategy {
  override readonly name: string;

  constructor({ options }: DataSource) {
    super();
    this.name = options.type;
  }
}

function moduleOf(strategy: Type): Type {
  @Module({ providers: [strategy], exports: [strategy] })
  class StrategyModule {}
  return StrategyModule;
}

function check(scheduler: string, ...strategies: Type[]): void {
  checkScheduler(loadSettings(['--scheduler', scheduler], {}), strategies.map(moduleOf));
}

describe('the check of SERVICE_SCHEDULER before the application exists', () => {
  it('knows the strategies of the service and of extensions', () => {
    for (const name of ['direct', 'fit', 'named', 'max-3']) check(name, NamedStrategy, NamedBySettings);
  });

  it('refuses a name that no strategy has', () => {
    assert.throws(
      () => check('astrology', NamedStrategy, NamedBySettings),
      new SettingsError([
        "SERVICE_SCHEDULER: no strategy is named 'astrology'; there are: direct, fit, named, max-3",
      ]),
    );
  });

  it('refuses a name that two strategies have', () => {
    assert.throws(() => check('direct', NamedLikeDirect), /more than one strategy is named 'direct'/);
  });

  it('leaves a strategy whose name needs other dependencies to the application', () => {
    check('postgres', NamedByDatabase);
    check('astrology', NamedByDatabase);
  });
});
