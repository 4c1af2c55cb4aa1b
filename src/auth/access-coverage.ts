import { Injectable, type OnModuleInit } from '@nestjs/common';
import { PATH_METADATA } from '@nestjs/common/constants.js';
import { DiscoveryService, MetadataScanner, Reflector } from '@nestjs/core';
import { ACCESS } from './access.js';

/** Keeps the service from starting with a route that does not say who may call it. */
@Injectable()
export class AccessCoverage implements OnModuleInit {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly reflector: Reflector,
  ) {}

  /** @throws Error that names the routes without a declared access */
  onModuleInit(): void {
    const undeclared = this.discovery.getControllers().flatMap(({ metatype, instance }) => {
      if (!metatype || typeof instance !== 'object' || instance === null) return [];
      const prototype: object = Object.getPrototypeOf(instance);
      return this.scanner.getAllMethodNames(prototype).flatMap((name) => {
        const handler: unknown = Reflect.get(prototype, name);
        if (typeof handler !== 'function' || !Reflect.hasMetadata(PATH_METADATA, handler)) return [];
        const access: unknown = this.reflector.getAllAndOverride(ACCESS, [handler, metatype]);
        return access ? [] : [`${metatype.name}.${name}`];
      });
    });
    if (undeclared.length > 0) throw new Error(`routes without a declared access: ${undeclared.join(', ')}`);
  }
}
