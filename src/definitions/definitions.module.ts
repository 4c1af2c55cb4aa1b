import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DefinitionEntity } from '../database/entities/definition.entity.js';
import { RunsModule } from '../runs/runs.module.js';
import { DefinitionRepository } from './definition.repository.js';
import { DefinitionsController } from './definitions.controller.js';
import { DefinitionsService } from './definitions.service.js';
import { RerunsController } from './reruns.controller.js';
import { RerunsService } from './reruns.service.js';
import { RunBodies } from './run-bodies.js';

@Module({
  imports: [RunsModule, TypeOrmModule.forFeature([DefinitionEntity])],
  controllers: [DefinitionsController, RerunsController],
  providers: [DefinitionRepository, DefinitionsService, RerunsService, RunBodies],
  exports: [RunBodies, DefinitionRepository],
})
export class DefinitionsModule {}
