import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { RunEntity } from 'longshore/extension';
import { OutcomesController } from './outcomes.controller.js';
import { OutcomesService } from './outcomes.service.js';
import { RunOutcomeEntity } from './run-outcome.entity.js';

/** Counts of the outcomes of runs by image, kept after retention has removed the runs. */
@Module({
  imports: [TypeOrmModule.forFeature([RunEntity, RunOutcomeEntity])],
  controllers: [OutcomesController],
  providers: [OutcomesService],
})
export class OutcomesModule {}
