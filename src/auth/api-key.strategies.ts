import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import { HeaderAPIKeyStrategy } from 'passport-headerapikey';
import type { Caller } from './access.js';
import { ApiKeysService } from './api-keys.service.js';

/** Names of the strategies, in the order in which they are tried. */
export const API_KEY_STRATEGIES = ['x-api-key', 'bearer'];

/** Reads the key from `X-API-Key`. */
@Injectable()
export class XApiKeyStrategy extends PassportStrategy(HeaderAPIKeyStrategy, 'x-api-key') {
  constructor(private readonly keys: ApiKeysService) {
    super({ header: 'X-API-Key', prefix: '' }, false);
  }

  /** The caller, or false for a key that is not ours. */
  validate(key: string): Caller | false {
    return this.keys.verify(key) ?? false;
  }
}

/** Reads the key from `Authorization: Bearer`. */
@Injectable()
export class BearerStrategy extends PassportStrategy(HeaderAPIKeyStrategy, 'bearer') {
  constructor(private readonly keys: ApiKeysService) {
    super({ header: 'Authorization', prefix: 'Bearer ' }, false);
  }

  /** The caller, or false for a key that is not ours. */
  validate(key: string): Caller | false {
    return this.keys.verify(key) ?? false;
  }
}
