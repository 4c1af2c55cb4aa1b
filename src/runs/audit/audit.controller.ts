import { Controller, Get, Query } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { InjectRepository } from '@nestjs/typeorm';
import { LessThan, Repository } from 'typeorm';
import { AllowScopes } from '../../auth/access.js';
import { AuditEntryEntity } from '../../database/entities/audit-entry.entity.js';
import { ApiErrors } from '../../common/http/errors/error.dto.js';
import { AuditEntryDto, DEFAULT_AUDIT_LIMIT, ListAuditQueryDto, toAuditEntryDto } from './audit.dto.js';

@ApiTags('operations')
@Controller('audit')
export class AuditController {
  constructor(@InjectRepository(AuditEntryEntity) private readonly entries: Repository<AuditEntryEntity>) {}

  @Get()
  @AllowScopes('admin')
  @ApiOperation({
    operationId: 'listAudit',
    summary: 'List direct changes of runs, newest first',
    description: 'Each entry records a PATCH of a run by an admin.',
  })
  @ApiOkResponse({ type: [AuditEntryDto], description: 'A page of the audit log.' })
  @ApiErrors(400, 503)
  async list(@Query() query: ListAuditQueryDto): Promise<AuditEntryDto[]> {
    const found = await this.entries.find({
      where: query.after === undefined ? {} : { id: LessThan(String(query.after)) },
      order: { id: 'DESC' },
      take: query.limit ?? DEFAULT_AUDIT_LIMIT,
    });
    return found.map(toAuditEntryDto);
  }
}
