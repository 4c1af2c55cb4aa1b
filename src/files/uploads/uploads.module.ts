import { Module } from '@nestjs/common';
import { StoresModule } from '../stores/stores.module.js';
import { FileRemovalJob } from './file-removal.job.js';
import { FileRemovalRepository } from './file-removal.repository.js';
import { FileRepository } from './file.repository.js';
import { FilesController } from './files.controller.js';
import { FilesService } from './files.service.js';

/** Files that clients upload. */
@Module({
  imports: [StoresModule],
  controllers: [FilesController],
  providers: [FileRepository, FileRemovalRepository, FileRemovalJob, FilesService],
  exports: [FileRepository, FileRemovalRepository],
})
export class UploadsModule {}
