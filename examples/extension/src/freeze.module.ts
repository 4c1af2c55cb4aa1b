import { Injectable, Module, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { APP_GUARD } from '@nestjs/core';
import type { Request } from 'express';
import { DomainError, type Caller } from 'longshore/extension';

/** Only an admin may change anything at present: 403. */
class WritesFrozen extends DomainError {
  readonly kind = 'forbidden';

  constructor() {
    super('Changes are frozen');
  }
}

/** Refuses every request that could change something while TEAM_FREEZE is `true`, except those of admins. */
@Injectable()
export class FreezeGuard implements CanActivate {
  private readonly frozen: boolean;

  constructor(config: ConfigService) {
    this.frozen = config.get('TEAM_FREEZE') === 'true';
  }

  canActivate(context: ExecutionContext): boolean {
    if (!this.frozen) return true;
    const { method, user } = context.switchToHttp().getRequest<Request & { user?: Caller }>();
    if (['GET', 'HEAD', 'OPTIONS'].includes(method) || user?.scopes.has('admin')) return true;
    throw new WritesFrozen();
  }
}

@Module({ providers: [{ provide: APP_GUARD, useClass: FreezeGuard }] })
export class FreezeModule {}
