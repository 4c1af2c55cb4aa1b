import { applyDecorators } from '@nestjs/common';
import {
  IsBoolean,
  IsInt,
  IsNumber,
  IsOptional,
  IsPositive,
  IsString,
  Matches,
  Max,
  Min,
} from 'class-validator';
import type { Setting } from '@longshore/common/settings/setting';
import type { Settings } from './settings.js';

export type SettingKey = Setting & { readonly field: keyof Settings };

/** The settings that these decorators declare, by the prototype of their class. */
const declared = new Map<object, SettingKey[]>();

/** The settings that classes declare, in the order of the declarations. */
export function settingKeysOf(...classes: readonly { readonly prototype: object }[]): SettingKey[] {
  return classes.flatMap(({ prototype }) => declared.get(prototype) ?? []);
}

type SettingDecorator = (target: object, field: keyof Settings) => void;

/** A setting without a flag. @param checks of the converted value */
export function Secret(row: Omit<Setting, 'field'>, ...checks: PropertyDecorator[]): SettingDecorator {
  return (target, field) => {
    declared.set(target, [...(declared.get(target) ?? []), { field, ...row }]);
    applyDecorators(...checks)(target, field);
  };
}

/** A setting whose flag is named after its variable: `--log-level` for `SERVICE_LOG_LEVEL`. */
function WithFlag(row: Omit<Setting, 'field' | 'flag'>, ...checks: PropertyDecorator[]): SettingDecorator {
  const flag = row.env.replace('SERVICE_', '').toLowerCase().replaceAll('_', '-');
  return Secret({ ...row, flag }, ...checks);
}

interface NumberOptions {
  readonly min: number;
  readonly max: number;
  readonly default: number;
}

export function IntegerSetting(env: string, options: NumberOptions, description: string): SettingDecorator {
  const { min, max } = options;
  const allowed = `an integer from ${min} to ${max}`;
  const row = { env, kind: 'integer', default: String(options.default), allowed, description } as const;
  return WithFlag(row, IsInt(), Min(min), Max(max));
}

/** A number of seconds, possibly a fraction. Without a minimum it is greater than 0. */
export function SecondsSetting(
  env: string,
  { min, max, default: seconds }: Omit<NumberOptions, 'min'> & { readonly min?: number },
  description: string,
): SettingDecorator {
  const range = min === undefined ? `greater than 0 and at most ${max}` : `from ${min} to ${max}`;
  const allowed = `a number of seconds ${range}`;
  const row = { env, kind: 'number', default: String(seconds), allowed, description } as const;
  return WithFlag(row, IsNumber(), min === undefined ? IsPositive() : Min(min), Max(max));
}

export function BooleanSetting(env: string, value: boolean, description: string): SettingDecorator {
  const row = {
    env,
    kind: 'boolean',
    default: String(value),
    allowed: 'true or false',
    description,
  } as const;
  return WithFlag(row, IsBoolean());
}

/** Without a default the setting may be unset. */
export function TextSetting(
  env: string,
  { check, ...row }: Pick<Setting, 'default' | 'allowed'> & { readonly check: RegExp | PropertyDecorator },
  description: string,
): SettingDecorator {
  const checks = check instanceof RegExp ? [IsString(), Matches(check)] : [check];
  if (row.default === undefined) checks.push(IsOptional());
  return WithFlag({ ...row, env, kind: 'text', description }, ...checks);
}
