import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, sep } from 'node:path';
import {
  isServable,
  staticFile,
  type Encoding,
  type StaticFile,
  sendStaticFile,
} from '../common/http/server/static-file.js';
import { Controller, Get, Inject, Logger, Param, Req, Res, type OnModuleInit } from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { Public } from '../auth/access.js';
import { NotFound } from '../common/errors/domain-error.js';
import { IgnoreQuery } from '../common/http/request/handler-inputs.js';
import { publicOriginOf } from '../config/file-stores.js';
import { Settings } from '../config/settings.js';

/** The built dashboard. */
export const DASHBOARD_FOLDER = join(
  dirname(createRequire(import.meta.url).resolve('@longshore/dashboard/package.json')),
  'dist',
);

/** Encodings of files, smallest first, with their extensions. */
const ENCODINGS = [
  ['br', '.br'],
  ['gzip', '.gz'],
  ['identity', ''],
] as const;

/** The files of the dashboard by their paths below it, such as `assets/index-x.js`. */
type DashboardFiles = ReadonlyMap<string, StaticFile>;

/**
 * Reads the built dashboard into memory (less than a megabyte), so that a later build does not affect the running service
 * and no other file can be served.
 * @returns no file when the dashboard is not built
 */
async function loadDashboard(folder: string = DASHBOARD_FOLDER): Promise<DashboardFiles> {
  if (!existsSync(folder)) return new Map();
  const entries = await readdir(folder, { recursive: true });
  const names = new Set(entries.map((path) => path.split(sep).join('/')));
  const files = new Map<string, StaticFile>();
  for (const name of names) {
    if (!isServable(name)) continue;
    const bodies = new Map<Encoding, Buffer>();
    for (const [encoding, extension] of ENCODINGS) {
      if (names.has(name + extension)) bodies.set(encoding, await readFile(join(folder, name + extension)));
    }
    // The names of assets hold a hash of their content, so that they never change.
    const isHashed = name.startsWith('assets/');
    files.set(name, staticFile(name, bodies, isHashed ? 'public, max-age=31536000, immutable' : undefined));
  }
  return files;
}

/**
 * Only the dashboard's own files and the API; no inline scripts or styles. Pictures and uploads also at the bucket of files, if there
 * is one: a folder is served by the service itself.
 */
function contentSecurityPolicy(bucket: string | undefined): string {
  const more = bucket === undefined ? '' : ` ${bucket}`;
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    `img-src 'self' data:${more}`,
    `connect-src 'self'${more}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

/** The dashboard's files. They hold no data and need no key: the page calls the API with the key of the user. */
@ApiExcludeController()
@Controller()
export class DashboardController implements OnModuleInit {
  private readonly logger = new Logger('Dashboard');
  private files: DashboardFiles = new Map();
  readonly #policy: string;

  constructor(
    private readonly application: ApplicationConfig,
    @Inject(Settings) settings: Pick<Settings, 'filesUrl'>,
  ) {
    this.#policy = contentSecurityPolicy(publicOriginOf(settings));
  }

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

  /** Relative links need the slash. The target is relative too: a proxy may add a prefix to the path. */
  @Get('ui')
  @Public()
  @IgnoreQuery()
  redirect(@Res() response: Response): void {
    response.redirect(308, 'ui/');
  }

  /** Who opens the address of the service in a browser looks for the dashboard. */
  @Get()
  @Public()
  @IgnoreQuery()
  open(@Res() response: Response): void {
    if (this.files.size === 0) throw new NotFound();
    response.redirect(302, 'ui/');
  }

  /** Paths other than files and assets are routes of the page. */
  @Get('ui/{*path}')
  @Public()
  @IgnoreQuery()
  file(
    @Req() request: Request,
    @Res() response: Response,
    @Param('path') path: readonly string[] = [],
  ): void {
    const name = path.join('/');
    const file = this.files.get(name) ?? (name.startsWith('assets/') ? undefined : this.pageAt(request.path));
    if (file === undefined) throw new NotFound();
    response.setHeader('Content-Security-Policy', this.#policy);
    sendStaticFile(request, response, file);
  }

  /** The page for this path, below which it finds its files. */
  private pageAt(path: string): StaticFile | undefined {
    const page = this.files.get('index.html');
    const depth = path.split('/').length - '/ui/'.split('/').length;
    return page === undefined || depth === 0 ? page : toDepth(page, depth);
  }
}

/** The page with the links of the build, which are relative to `/ui/`, from so many folders below. */
function toDepth({ bodies }: StaticFile, depth: number): StaticFile {
  const html = String(bodies.get('identity')).replaceAll('="./', `="${'../'.repeat(depth)}`);
  return staticFile('index.html', new Map([['identity', Buffer.from(html)]]));
}
