import { Controller, Get, Query, Res, type StreamableFile } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { InjectRepository } from '@nestjs/typeorm';
import { jsonText } from '@longshore/common/json/json-text';
import type { Response } from 'express';
import { LessThan, Repository } from 'typeorm';
import { TakesDatabaseTurn } from '../../common/http/server/database-turns.js';
import { AllowScopes } from '../../auth/access.js';
import { AuditEntryEntity } from '../../database/entities/security.entity.js';
import { ApiPage } from '../../common/http/next-page.js';
import { Settings } from '../../config/settings.js';
import { readPage } from '../../database/sql/read-page.js';
import { answerPage } from '../http/json-stream.js';
import { AuditEntryDto, DEFAULT_AUDIT_LIMIT, ListAuditQueryDto, toAuditEntryDto } from './audit.dto.js';

@ApiTags('operations')
@Controller('audit')
@TakesDatabaseTurn()
export class AuditController {
  constructor(
    @InjectRepository(AuditEntryEntity) private readonly entries: Repository<AuditEntryEntity>,
    private readonly settings: Settings,
  ) {}

  /**
   * List recorded changes and reads of secrets, newest first
   * @remarks Direct changes of runs (PATCH), bulk operations, API keys that were created, changed and revoked, drains of workers, changes of
   * definitions and secrets, deleted files, and reads of secrets by workers.
   */
  @Get()
  @AllowScopes('admin')
  @ApiPage(AuditEntryDto, 'A page of the audit log.')
  async listAudit(
    @Query() { limit = DEFAULT_AUDIT_LIMIT, after }: ListAuditQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    const { items, hasMore } = await readPage<AuditEntryEntity>(
      { limit, maxBytes: this.settings.maxAnswerBytes },
      (take, last) => {
        const id = last?.id ?? after;
        return this.entries.find({
          where: id === undefined ? {} : { id: LessThan(String(id)) },
          order: { id: 'DESC' },
          take,
        });
      },
      (entry) => jsonText(entry.before).length + jsonText(entry.after).length,
    );
    return answerPage(response, { items: items.map(toAuditEntryDto), hasMore }, ({ id }) => id);
  }
}
