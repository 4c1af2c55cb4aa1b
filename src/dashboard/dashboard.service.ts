import { Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { loadDashboard, type DashboardFile, type DashboardFiles } from './dashboard-files.js';

@Injectable()
export class DashboardService implements OnModuleInit {
  private readonly logger = new Logger('Dashboard');
  private files: DashboardFiles = new Map();

  constructor(private readonly application: ApplicationConfig) {}

  async onModuleInit(): Promise<void> {
    const { defaultVersion } = { defaultVersion: undefined, ...this.application.getVersioning() };
    if (this.application.getGlobalPrefix() !== '' || defaultVersion !== undefined) {
      this.logger.warn(
        'the dashboard answers 404: it needs the API without a global prefix or a default version',
      );
      return;
    }
    this.files = await loadDashboard();
    if (this.files.size === 0) this.logger.warn('the dashboard is not built: /ui answers 404');
  }

  /** The file of that name; for other paths but those of assets the page, which has routes of its own. */
  find(path: string): DashboardFile | undefined {
    const file = this.files.get(path);
    if (file !== undefined || path.startsWith('assets/')) return file;
    return this.files.get('index.html');
  }
}
