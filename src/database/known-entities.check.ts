import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import { EntitySchema, Repository, type EntityTarget } from 'typeorm';

export class UnknownEntities extends Error {
  constructor(names: readonly string[]) {
    super(`TypeOrmModule.forFeature: the data source was opened without the entity ${names.join(', ')}`);
  }
}

/**
 * Stops the start when `TypeOrmModule.forFeature` registers an entity that its data source does not have. TypeORM
 * itself reports this only when the repository is used.
 */
@Injectable()
export class KnownEntitiesCheck implements OnModuleInit {
  constructor(private readonly discovery: DiscoveryService) {}

  /** @throws UnknownEntities */
  onModuleInit(): void {
    const unknown = new Set<string>();
    for (const { instance } of this.discovery.getProviders()) {
      const isUnknown =
        instance instanceof Repository && !instance.manager.dataSource.hasMetadata(instance.target);
      if (isUnknown) unknown.add(nameOf(instance.target));
    }
    if (unknown.size > 0) throw new UnknownEntities([...unknown]);
  }
}

function nameOf(target: EntityTarget<object>): string {
  if (typeof target === 'string') return target;
  return target instanceof EntitySchema ? target.options.name : target.name;
}
