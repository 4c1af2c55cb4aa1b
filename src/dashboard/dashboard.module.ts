import { Module } from '@nestjs/common';
import { DashboardController } from './dashboard.controller.js';

/** Serves the built dashboard at /ui. */
@Module({ controllers: [DashboardController] })
export class DashboardModule {}
