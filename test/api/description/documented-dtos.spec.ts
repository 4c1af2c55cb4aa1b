import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { Body, Controller, Module, Param, ParseIntPipe, Post, Get, Query } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { RouteParamtypes } from '@nestjs/common/internal';
import { IntersectionType, OmitType, PartialType, PickType } from '@nestjs/swagger';
import { Exclude, Expose, Transform, Type } from 'class-transformer';
import {
  IsArray,
  IsDate,
  IsInt,
  IsOptional,
  IsString,
  Max,
  MinLength,
  Validate,
  ValidateBy,
  ValidateIf,
  ValidateNested,
  ValidatorConstraint,
  registerDecorator,
  type ValidatorConstraintInterface,
} from 'class-validator';
import { Public } from '../../../src/auth/access.js';
import { declaredParameters } from '../../../src/common/http/request/handler-inputs.js';
import { DtoPlan } from '../../../src/common/http/validation/dto-plan.js';
import { JsonObject } from '../../../src/common/http/validation/dto-decorators.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

class Address {
  @IsString() street: string;
  @IsOptional() @IsInt() number?: number;
}

class NestedDto {
  @ValidateNested() @Type(() => Address) one: Address;
  @IsOptional() @IsArray() @ValidateNested({ each: true }) @Type(() => Address) list?: Address[];
  @IsOptional() @ValidateNested() @Type(() => Address) map?: Map<string, Address>;
}

class MessageDto {
  @MinLength(3, { message: ({ value, constraints }) => `${value.length} of ${constraints[0]} characters` })
  title: string;
}

class TransformDto {
  @Transform(({ value }) => String(value).trim()) @MinLength(2) name: string;
  @ValidateIf(({ name }: TransformDto) => name === 'strict') @IsInt() count?: unknown;
}

@ValidatorConstraint({ async: true })
class IsFree implements ValidatorConstraintInterface {
  async validate(value: unknown): Promise<boolean> {
    return Promise.resolve(value !== 'taken');
  }

  defaultMessage(): string {
    return '$property is taken';
  }
}

function IsEven(): PropertyDecorator {
  return (target, name) =>
    registerDecorator({
      name: 'isEven',
      target: target.constructor,
      propertyName: String(name),
      validator: {
        validate: (value: unknown) => Number(value) % 2 === 0,
        defaultMessage: () => '$property must be even',
      },
    });
}

class Account {
  @Validate(IsFree) login: string;
}

class AsyncDto {
  @Validate(IsFree) name: string;
  @IsOptional() @IsEven() even?: number;
  @IsOptional() @ValidateNested({ each: true }) @Type(() => Account) accounts?: Account[];
  @IsOptional() @JsonObject() meta?: object;
}

/** Its constraint gives a promise without saying so. */
class LateDto {
  @ValidateBy({
    name: 'late',
    validator: {
      validate: (value: unknown) => Promise.resolve(value === 1),
      defaultMessage: () => '$property is not 1',
    },
  })
  n: unknown;
}

class RenamedDto {
  @Expose({ name: 'first_name' }) @IsString() firstName: string;
  @IsOptional() @Type(() => Date) @IsDate() born?: Date;
  @IsOptional() @IsString() @Exclude() secret?: string;
}

class PageDto {
  @IsOptional() @Type(() => Number) @IsInt() @Max(100) limit?: number = 10;
}

class PetDto {
  @IsString() name: string;
  @IsInt() age: number;
}

class TagDto {
  @IsString() tag: string;
}

class PartialPet extends PartialType(PetDto) {}
class PickedPet extends PickType(PetDto, ['name']) {}
class OmittedPet extends OmitType(PetDto, ['name']) {}
class TaggedPet extends IntersectionType(PetDto, TagDto) {}

class IdDto {
  @Type(() => Number) @IsInt() id: number;
}

function shown(value: object): object {
  return {
    ...value,
    class: value.constructor.name,
    ...('map' in value && value.map instanceof Map && { map: [...value.map] }),
  };
}

@Public()
@Controller('dto')
class DtoController {
  @Post('nested') nested(@Body() { one, list, map }: NestedDto): object {
    return {
      classes: [one, ...(list ?? []), ...(map?.values() ?? [])].map((each) => each.constructor.name),
      keys: [...(map?.keys() ?? [])],
    };
  }
  @Post('transform') transform(@Body() body: TransformDto): object {
    return shown(body);
  }
  @Post('message')
  message(@Body() body: MessageDto): object {
    return shown(body);
  }
  @Post('async') asynchronous(@Body() body: AsyncDto): object {
    return shown(body);
  }
  @Post('late') late(@Body() body: LateDto): object {
    return shown(body);
  }
  @Post('renamed') renamed(@Body() body: RenamedDto): object {
    return shown(body);
  }
  @Post('partial') partial(@Body() body: PartialPet): object {
    return shown(body);
  }
  @Post('picked') picked(@Body() body: PickedPet): object {
    return shown(body);
  }
  @Post('omitted') omitted(@Body() body: OmittedPet): object {
    return shown(body);
  }
  @Post('tagged') tagged(@Body() body: TaggedPet): object {
    return shown(body);
  }
  @Post('part') part(@Body('address') address: Address): object {
    return shown(address);
  }
  @Post('free') free(@Body() body: Record<string, unknown>): object {
    return { body };
  }
  @Get('page') page(@Query() query: PageDto): object {
    return shown(query);
  }
  @Get('primitive') primitive(@Query('n') n: number, @Query('b') b?: boolean): object {
    return { n, b };
  }
  @Get('params/:id') params(@Param() params: IdDto): object {
    return shown(params);
  }
  @Get('int/:id') int(@Param('id', ParseIntPipe) id: number): object {
    return { id };
  }
}

@Module({ controllers: [DtoController] })
class DtoModule {}

describe('DTO classes as Nest, class-validator and class-transformer document them', () => {
  const service = useTestApp({ extensions: [DtoModule] });

  function post(path: string, body: unknown): Promise<TestAnswer> {
    return service.send('POST', `/dto/${path}`, { body });
  }

  test('@ValidateNested with @Type builds and validates objects, lists and maps', async () => {
    const address = { street: 'a' };
    await accepts(post('nested', { one: address, list: [address], map: { x: address } }), {
      classes: ['Address', 'Address', 'Address'],
      keys: ['x'],
    });
    await refuses(
      post('nested', {
        one: { street: 1 },
        list: [address, { street: 2 }],
        map: { x: { street: 'a', y: 1 } },
      }),
      'one.street must be a string',
      'list[1].street must be a string',
      'map.x.y is not a known field',
    );
    await refuses(post('nested', { one: 'x', list: {} }), 'one must be an object', 'list must be an array');
  });

  test('@Transform applies before the constraints, @ValidateIf sees the whole object', async () => {
    await accepts(post('transform', { name: ' ab ', count: 'x' }), {
      name: 'ab',
      count: 'x',
      class: 'TransformDto',
    });
    await refuses(post('transform', { name: ' a ' }), 'name must be longer than or equal to 2 characters');
    await refuses(post('transform', { count: 'x', name: 'strict' }), 'count must be an integer number');
  });

  test('custom and async constraints decide, in nested objects too, with messages of their own', async () => {
    const meta: unknown = JSON.parse('{"__proto__":1,"constructor":{"a":[null]}}');
    const { status, text } = await post('async', { name: 'a', even: 2, accounts: [{ login: 'b' }], meta });
    assert.equal(status, 201);
    assert.ok(text.includes('"meta":{"__proto__":1,"constructor":{"a":[null]}}'), text);
    await refuses(
      post('async', { name: 'taken', even: 1, accounts: [{ login: 'b' }, { login: 'taken' }], x: 1 }),
      'name is taken',
      'even must be even',
      'accounts[1].login is taken',
      'x is not a known field',
    );
    await refuses(post('async', []), 'the body must be a JSON object');
    await refuses(post('message', { title: 'ab' }), 'title: 2 of 3 characters');
    await refuses(post('late', { n: 2 }), 'n is not 1');
    await accepts(post('late', { n: 1 }), { n: 1, class: 'LateDto' });
  });

  test('@Expose renames, @Exclude leaves out, @Type makes dates', async () => {
    const born = '2020-01-02T03:04:05.000Z';
    await accepts(post('renamed', { first_name: 'a', born, secret: 'x' }), {
      firstName: 'a',
      born,
      class: 'RenamedDto',
    });
    await refuses(
      post('renamed', { born: { toString: 1 } }),
      'firstName is required',
      'born must be a Date instance',
    );
  });

  test('mapped types keep the rules of their fields', async () => {
    await accepts(post('partial', { age: 1 }), { age: 1, class: 'PartialPet' });
    await refuses(post('partial', { age: 'x' }), 'age must be an integer number');
    await accepts(post('picked', { name: 'a' }), { name: 'a', class: 'PickedPet' });
    await refuses(post('picked', { name: 'a', age: 1 }), 'age is not a known field');
    await refuses(post('omitted', { name: 'a', age: 1 }), 'name is not a known field');
    await refuses(post('tagged', { name: 'a', age: 1 }), 'tag is required');
  });

  test('a part of a body, a free body, queries and path parameters', async () => {
    await accepts(post('part', { address: { street: 'a' } }), { street: 'a', class: 'Address' });
    await refuses(post('part', { address: { street: 1 } }), 'address.street must be a string');
    await refuses(post('part', { address: 'x' }), 'address must be an object');
    await accepts(post('free', { any: [1] }), { body: { any: [1] } });
    await accepts(service.send('GET', '/dto/page?limit=7'), { limit: 7, class: 'PageDto' });
    await accepts(service.send('GET', '/dto/page'), { limit: 10, class: 'PageDto' });
    await refuses(service.send('GET', '/dto/page?limit=x'), 'limit must be an integer number');
    await refuses(service.send('GET', '/dto/page?x=1'), 'x is not a known query parameter');
    await accepts(service.send('GET', '/dto/primitive?n=7&b=true'), { n: 7, b: true });
    await accepts(service.send('GET', '/dto/params/7'), { id: 7, class: 'IdDto' });
    await refuses(service.send('GET', '/dto/params/x'), 'id must be an integer number');
    await accepts(service.send('GET', '/dto/int/7'), { id: 7 });
    assert.equal((await service.send('GET', '/dto/int/x')).status, 400);
  });

  test('every body and query of the own routes has a DTO class with a compiled plan', () => {
    let checked = 0;
    for (const { controllers } of service.app.get(ModulesContainer).values()) {
      for (const { metatype } of controllers.values()) {
        if (typeof metatype !== 'function' || metatype === DtoController) continue;
        for (const name of Object.getOwnPropertyNames(metatype.prototype)) {
          const types: unknown = Reflect.getMetadata('design:paramtypes', metatype.prototype, name);
          for (const { kind, data, index } of declaredParameters(toClass(metatype), name)) {
            if (kind !== RouteParamtypes.BODY && kind !== RouteParamtypes.QUERY) continue;
            const type: unknown = Array.isArray(types) ? types[index] : undefined;
            const place: string = `${metatype.name}.${name}`;
            assert.equal(data, undefined, place);
            assert.ok(typeof type === 'function' && type !== Object, place);
            assert.ok(DtoPlan.of(toClass(type)), place);
            checked += 1;
          }
        }
      }
    }
    assert.ok(checked > 20, String(checked));
  });
});

async function accepts(answer: Promise<TestAnswer>, body: object): Promise<void> {
  const { status, body: actual } = await answer;
  assert.deepEqual([status < 300, actual], [true, body], JSON.stringify(actual));
}

async function refuses(answer: Promise<TestAnswer>, ...errors: string[]): Promise<void> {
  const { status, body } = await answer;
  assert.equal(status, 400);
  assert.deepEqual(body.errors.toSorted(), errors.toSorted());
}

function toClass(value: unknown): new () => object {
  assert.ok(isClass(value));
  return value;
}

function isClass(value: unknown): value is new () => object {
  return typeof value === 'function';
}
