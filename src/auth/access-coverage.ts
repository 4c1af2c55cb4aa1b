import { Injectable, type OnModuleInit, type Type } from '@nestjs/common';
import { PATH_METADATA } from '@nestjs/common/constants.js';
import { DiscoveryService, MetadataScanner, Reflector } from '@nestjs/core';
import { ACCESS } from './access.js';

const scanner = new MetadataScanner();
const reflector = new Reflector();

/** Refuses to start an application that has a route without a declared access. */
@Injectable()
export class AccessCoverage implements OnModuleInit {
  constructor(private readonly discovery: DiscoveryService) {}

  /** @throws Error that names the routes without a declared access */
  onModuleInit(): void {
    const routes = this.discovery
      .getControllers()
      .flatMap(({ metatype }) => (isClass(metatype) ? undeclaredRoutes(metatype) : []));
    if (routes.length > 0) throw new Error(`routes without a declared access: ${routes.join(', ')}`);
  }
}

/** The routes of a controller that declare no access, as `Controller.method`. */
export function undeclaredRoutes(controller: Type): string[] {
  const prototype: object = controller.prototype;
  return scanner.getAllMethodNames(prototype).flatMap((name) => {
    const handler: unknown = Reflect.get(prototype, name);
    if (typeof handler !== 'function' || !Reflect.hasMetadata(PATH_METADATA, handler)) return [];
    return reflector.getAllAndOverride(ACCESS, [handler, controller]) ? [] : [`${controller.name}.${name}`];
  });
}

function isClass(metatype: unknown): metatype is Type {
  return typeof metatype === 'function';
}
