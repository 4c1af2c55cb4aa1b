import { Module } from '@nestjs/common';
import { RunsModule } from '../../runs/runs.module.js';
import { StoresModule } from '../stores/stores.module.js';
import { UploadsModule } from '../uploads/uploads.module.js';
import { ArtifactRepository } from './artifact.repository.js';
import { ArtifactUploads } from './artifact-uploads.js';
import { ArtifactsController } from './artifacts.controller.js';
import { ArtifactsService } from './artifacts.service.js';
import { FilesOfRuns } from './files-of-runs.js';
import { LeftFilesReader } from './left-files.js';
import { ObjectRemovalJob } from './removal/object-removal.job.js';
import { ObjectRemovalRepository } from './removal/object-removal.repository.js';
import { StoreOwner } from './removal/store-owner.js';
import { StoreSweepJob } from './removal/store-sweep.job.js';
import { SourceLinks } from './source-links.js';

/** Files that runs get and leave. */
@Module({
  imports: [StoresModule, UploadsModule, RunsModule],
  controllers: [ArtifactsController],
  providers: [
    ArtifactRepository,
    ArtifactUploads,
    ArtifactsService,
    FilesOfRuns,
    LeftFilesReader,
    SourceLinks,
    ObjectRemovalRepository,
    ObjectRemovalJob,
    StoreOwner,
    StoreSweepJob,
  ],
  exports: [ObjectRemovalRepository],
})
export class ArtifactsModule {}
