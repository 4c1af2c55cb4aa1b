import { Module } from '@nestjs/common';
import { DashboardController } from './dashboard.controller.js';
import { DashboardService } from './dashboard.service.js';

/** The dashboard at /ui: its built files. */
@Module({ controllers: [DashboardController], providers: [DashboardService] })
export class DashboardModule {}
