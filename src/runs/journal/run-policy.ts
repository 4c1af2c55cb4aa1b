import { Inject, Injectable } from '@nestjs/common';
import { Settings } from '../../config/settings.js';
import type { Policy, RunLimits } from '../machine/run-command.js';
import { newId } from '../machine/new-id.js';

/** The settings that limit runs, and chance. */
@Injectable()
export class RunPolicy implements Policy {
  readonly newId = newId;
  readonly random = Math.random;

  constructor(@Inject(Settings) readonly limits: RunLimits) {}
}
