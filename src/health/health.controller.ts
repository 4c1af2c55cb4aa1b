import { Controller, Get, Res } from '@nestjs/common';
import { ApiOkResponse, ApiServiceUnavailableResponse, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { Public } from '../auth/access.js';
import { RETRY_AFTER } from '../common/http/errors/error.dto.js';
import { HealthChecks, isPassing } from './health-checks.js';

/** A check that takes longer counts as failed, in milliseconds. */
const TIMEOUT_MS = 2_000;

const STRINGS = { type: 'object', additionalProperties: { type: 'string' } } as const;

/** HTTP of health. Every response is an object of strings. */
@ApiTags('operations')
@Controller('health')
export class HealthController {
  constructor(private readonly checks: HealthChecks) {}

  /**
   * Check that the service is ready
   * @remarks For load balancers and readiness probes. Until the service has started, it is 503 with the status `starting`,
   * and `detail` says what the start waits for.
   */
  @Get()
  @Public()
  @ApiOkResponse({
    description: 'The service is ready.',
    schema: {
      ...STRINGS,
      example: { status: 'ok', database: 'ok', jobs: 'ok', journal: 'ok', reaper: 'ok' },
    },
  })
  @ApiServiceUnavailableResponse({
    description: 'The service is not ready.',
    headers: RETRY_AFTER,
    schema: {
      ...STRINGS,
      example: { status: 'unavailable', database: 'unreachable', jobs: 'ok', journal: 'ok', reaper: 'ok' },
    },
  })
  async getHealth(@Res({ passthrough: true }) response: Response): Promise<Record<string, string>> {
    const parts = await this.checks.run(TIMEOUT_MS);
    const isReady = Object.values(parts).every(isPassing);
    if (!isReady) response.status(503).setHeader('Retry-After', '1');
    return { status: isReady ? 'ok' : 'unavailable', ...parts };
  }

  /**
   * Check that the process answers
   * @remarks For liveness probes; says nothing about the database.
   */
  @Get('live')
  @Public()
  @ApiOkResponse({ description: 'The process answers.', schema: { ...STRINGS, example: { status: 'ok' } } })
  getLiveness(): Record<string, string> {
    return { status: 'ok' };
  }
}
