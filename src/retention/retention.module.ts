import { Module } from '@nestjs/common';
import { FeedModule } from '../feed/feed.module.js';
import { ArtifactsModule } from '../files/artifacts/artifacts.module.js';
import { StoresModule } from '../files/stores/stores.module.js';
import { UploadsModule } from '../files/uploads/uploads.module.js';
import { RunsModule } from '../runs/runs.module.js';
import { RetentionController } from './retention.controller.js';
import { RetentionService } from './retention.service.js';

/** What retention would remove. Each part removes its own. */
@Module({
  imports: [RunsModule, FeedModule, StoresModule, UploadsModule, ArtifactsModule],
  controllers: [RetentionController],
  providers: [RetentionService],
})
export class RetentionModule {}
