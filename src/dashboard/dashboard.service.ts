import { Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { loadDashboard, type DashboardFile, type DashboardFiles } from './dashboard-files.js';

/** What is served below /ui/. */
@Injectable()
export class DashboardService implements OnModuleInit {
  private readonly logger = new Logger('Dashboard');
  private files: DashboardFiles = new Map();

  constructor(private readonly application: ApplicationConfig) {}

  async onModuleInit(): Promise<void> {
    if (this.#isMoved()) {
      this.logger.warn(
        'the dashboard answers 404: it needs the API without a global prefix or a default version',
      );
      return;
    }
    this.files = await loadDashboard();
    if (this.files.size === 0) this.logger.warn('the dashboard is not built: /ui answers 404');
  }

  /** Whether the API is not where the built page looks for it. */
  #isMoved(): boolean {
    const { defaultVersion } = { defaultVersion: undefined, ...this.application.getVersioning() };
    return this.application.getGlobalPrefix() !== '' || defaultVersion !== undefined;
  }

  /**
   * What to send for a path below /ui/: the file of that name, or the page for every path but those of assets, because
   * the page knows its own routes.
   */
  find(path: string): DashboardFile | undefined {
    const file = this.files.get(path);
    if (file !== undefined || path.startsWith('assets/')) return file;
    return this.files.get('index.html');
  }
}
