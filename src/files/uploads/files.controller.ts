import { Body, Controller, Delete, Get, Header, HttpCode, Param, Post, Query, Res } from '@nestjs/common';
import { ApiCreatedResponse, ApiNoContentResponse, ApiOkResponse, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { AllowScopes, type Caller } from '../../auth/access.js';
import { CurrentCaller } from '../../auth/api-key.guard.js';
import { FILE_ID_PARAM } from '../../common/http/api-examples.js';
import {
  ApiErrors,
  ApiResource,
  ApiSwitchedOffError,
  NO_STORE_HEADER,
} from '../../common/http/errors/error.dto.js';
import { TakesDatabaseTurn } from '../../common/http/server/database-turns.js';
import { RequestAddress } from '../../common/http/request/request-address.js';
import {
  CompleteFileDto,
  CreatedFileDto,
  CreateFileDto,
  FileContentQueryDto,
  FileDto,
  FileStoreDto,
  FileUrlDto,
} from './file.dto.js';
import { answerContent, ApiContent } from './content-answer.js';
import { FilesService } from './files.service.js';

@ApiTags('files')
@Controller('files')
@AllowScopes('client')
@TakesDatabaseTurn()
@ApiSwitchedOffError('the storage of files')
export class FilesController {
  constructor(private readonly files: FilesService) {}

  /**
   * Create a file
   * @remarks The response has the URL to which the client sends the bytes, for 24 hours. With the checksum, size, name and
   * type of a file that the same API key has uploaded before, it is 200 with that file, and nothing needs to be sent. A file
   * that nothing uses is removed 24 hours after it was created or last used. An `Idempotency-Key` is ignored.
   */
  @Post()
  @Header('Cache-Control', 'no-store')
  @ApiCreatedResponse({ type: CreatedFileDto, description: 'The new file.', headers: NO_STORE_HEADER })
  @ApiOkResponse({ type: FileDto, description: 'The file with the same content.', headers: NO_STORE_HEADER })
  async createFile(
    @Body() body: CreateFileDto,
    @CurrentCaller() caller: Caller,
    @RequestAddress() base: string,
    @Res({ passthrough: true }) response: Response,
  ): Promise<CreatedFileDto | FileDto> {
    const file = await this.files.create(body, caller, base);
    response.status('upload' in file ? 201 : 200);
    return file;
  }

  /**
   * List the stores that runs may name
   * @remarks Those of the settings of the service that the API key may use.
   */
  @Get('stores')
  @ApiOkResponse({ type: [FileStoreDto], description: 'The stores.' })
  listFileStores(@CurrentCaller() caller: Caller): FileStoreDto[] {
    return this.files.listStores(caller);
  }

  /**
   * Get a file
   * @remarks Of a file that is awaited, the service asks the store.
   */
  @Get(':id')
  @ApiResource(FILE_ID_PARAM)
  @ApiOkResponse({ type: FileDto, description: 'The file.' })
  getFile(@Param('id') id: string): Promise<FileDto> {
    return this.files.get(id);
  }

  /**
   * Download a file
   * @remarks A redirect to a URL that works for 5 minutes and needs no API key.
   */
  @Get(':id/content')
  @ApiResource(FILE_ID_PARAM)
  @ApiContent('The content is at `Location`, as an attachment with the name of the file.')
  async getFileContent(
    @Param('id') id: string,
    @Query() { redirect = true }: FileContentQueryDto,
    @RequestAddress() base: string,
    @Res({ passthrough: true }) response: Response,
  ): Promise<FileUrlDto | undefined> {
    return answerContent(response, await this.files.content(id, base), redirect);
  }

  /**
   * Complete an upload in parts
   * @remarks What is not completed within 24 hours is aborted. Of a file that is not awaited, it changes nothing.
   */
  @Post(':id/complete')
  @HttpCode(200)
  @ApiResource(FILE_ID_PARAM)
  @ApiOkResponse({ type: FileDto, description: 'The file.' })
  @ApiErrors(409)
  completeFile(@Param('id') id: string, @Body() body: CompleteFileDto): Promise<FileDto> {
    return this.files.complete(id, body);
  }

  /**
   * Delete a file
   * @remarks Its bytes are removed, and URLs that were made before give nothing. 409 while a run that has not ended, a
   * version of a definition or a schedule uses it.
   */
  @Delete(':id')
  @HttpCode(204)
  @ApiResource(FILE_ID_PARAM)
  @ApiNoContentResponse({ description: 'Deleted.' })
  @ApiErrors(409)
  deleteFile(@Param('id') id: string, @CurrentCaller() caller: Caller): Promise<void> {
    return this.files.delete(id, caller);
  }
}
