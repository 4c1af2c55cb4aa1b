import { Controller, Get, Query } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { DataSource } from 'typeorm';
import { AllowScopes } from '../../auth/access.js';
import { ApiErrors } from '../../http/error.dto.js';
import { AuditEntryDto, DEFAULT_AUDIT_LIMIT, ListAuditQueryDto, toAuditEntryDto } from './audit.dto.js';
import { AuditRepository } from './audit.repository.js';

/** HTTP of the audit log. */
@ApiTags('operations')
@Controller('audit')
export class AuditController {
  constructor(
    private readonly dataSource: DataSource,
    private readonly entries: AuditRepository,
  ) {}

  @Get()
  @AllowScopes('admin')
  @ApiOperation({ operationId: 'listAudit', summary: 'List direct mutations of runs, newest first' })
  @ApiOkResponse({ type: [AuditEntryDto] })
  @ApiErrors(400, 503)
  async list(@Query() query: ListAuditQueryDto): Promise<AuditEntryDto[]> {
    const before = query.after === undefined ? null : String(query.after);
    const limit = query.limit ?? DEFAULT_AUDIT_LIMIT;
    return (await this.entries.list(this.dataSource.manager, before, limit)).map(toAuditEntryDto);
  }
}
