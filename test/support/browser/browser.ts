import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { onTestFinished } from 'vitest';

const CHROMIUM = '/usr/bin/chromium';
const PATIENCE_MS = 120_000;

/** Why there is no browser to test with; false when there is one. In the gate there has to be one. */
export const NO_BROWSER: string | false =
  existsSync(CHROMIUM) || process.env['CI'] === 'true'
    ? false
    : `no browser: ${CHROMIUM} not installed (see .ci/install-test-tools.sh)`;

/** Themes of the dashboard. */
export const THEMES = ['light', 'dark'] as const;
export type TestTheme = (typeof THEMES)[number];

/** Widths that the dashboard is made for, in pixels: a phone, a tablet or half a screen, a large screen. */
const WIDTHS = [360, 1024, 1920] as const;

/** How a page is to be opened. */
export interface PageOptions {
  /** Where the service is. */
  readonly url: string;
  /** Below /ui, such as `/workers?q=x`. */
  readonly path?: string;
  /** Signed in with this key; without one the sign-in page shows up. */
  readonly apiKey?: string;
  readonly theme?: TestTheme;
  readonly width?: number;
  /** Time zone of the browser, such as `Europe/Berlin`; default: that of the machine. */
  readonly timezone?: string;
}

/** A page under test. */
export interface TestPage {
  readonly page: Page;
  /** Console errors and uncaught errors so far. */
  readonly errors: readonly string[];
  /** Takes the errors out that the test has provoked. @throws AssertionError when none fits */
  expectErrors(pattern: RegExp): void;
  /** The sum of the layout shifts that nobody's input caused, since the page was opened. */
  layoutShift(): Promise<number>;
  /** @throws AssertionError with the serious and critical findings of axe-core, in the other theme those of its colours */
  checkAccessibility(): Promise<void>;
  /** @throws AssertionError when the page can be scrolled sideways */
  checkWidth(): Promise<void>;
  /** Writes `FOLDER/NAME-THEME-WIDTH.png` of what is in sight. */
  screenshot(folder: string, name: string): Promise<void>;
  /** Closes it, before the end of the test. @throws AssertionError when it had an error that was not expected */
  close(): Promise<void>;
}

let launched: Promise<Browser> | undefined;

/** Opens a page of the dashboard in a tab of its own, with a session of its own, until the test ends or closes it. */
export async function openPage({
  url,
  path = '/',
  apiKey,
  theme = 'light',
  width = 1024,
  timezone,
}: PageOptions): Promise<TestPage> {
  launched ??= launch();
  const browser = await launched;
  const context = await browser.newContext({
    viewport: { width, height: width < 600 ? 740 : 900 },
    colorScheme: theme,
    reducedMotion: 'reduce',
    ...(timezone !== undefined && { timezoneId: timezone }),
  });
  context.setDefaultTimeout(PATIENCE_MS);
  await context.addInitScript(WATCH_LAYOUT);
  if (apiKey !== undefined) {
    const stored = JSON.stringify(apiKey);
    // Once, and not in the empty page before: a key that the page forgets has to stay forgotten.
    await context.addInitScript(
      `if (location.protocol === 'http:' && window.name === '') { window.name = 'signed-in'; sessionStorage.setItem('longshore.key', ${stored}); }`,
    );
  }
  const page = await context.newPage();
  const opened = new OpenPage(page, context, theme, width);
  onTestFinished(() => opened.close());
  await page.goto(`${url}/ui${path}`);
  return opened;
}

/**
 * Opens a page at each width, and checks after each step that it is accessible, in both themes, and not to be scrolled sideways.
 * @param show opens it
 */
export async function checkLooks(
  show: (look: Pick<PageOptions, 'width'>) => Promise<TestPage>,
  ...steps: readonly ((page: Page, width: number) => Promise<unknown>)[]
): Promise<void> {
  for (const width of WIDTHS) {
    const opened = await show({ width });
    for (const step of steps) {
      await step(opened.page, width);
      await opened.checkAccessibility();
      await opened.checkWidth();
    }
    await opened.close();
  }
}

function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: CHROMIUM,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/** Adds up the layout shifts as the page lives. */
const WATCH_LAYOUT = `
  window.layoutShift = 0;
  window.layoutShifts = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      window.layoutShift += entry.value;
      for (const { node } of entry.sources) window.layoutShifts.push(node?.className ?? String(node?.nodeName));
    }
  }).observe({ type: 'layout-shift', buffered: true });
`;

interface Finding {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

class OpenPage implements TestPage {
  errors: string[] = [];

  constructor(
    readonly page: Page,
    private readonly context: BrowserContext,
    private readonly theme: TestTheme,
    private readonly width: number,
  ) {
    page.on('pageerror', (error) => this.errors.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') this.errors.push(`${message.text()} ${message.location().url}`);
    });
  }

  expectErrors(pattern: RegExp): void {
    assert.ok(
      this.errors.some((error) => pattern.test(error)),
      `no error like ${pattern} in ${JSON.stringify(this.errors)}`,
    );
    this.errors = this.errors.filter((error) => !pattern.test(error));
  }

  async layoutShift(): Promise<number> {
    return await this.page.evaluate<number>('window.layoutShift');
  }

  async checkAccessibility(): Promise<void> {
    const source = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
    await this.page.evaluate(source);
    await this.checkFindings({}, this.theme);
    const other = this.theme === 'light' ? 'dark' : 'light';
    await this.page.emulateMedia({ colorScheme: other });
    await this.checkFindings({ runOnly: ['color-contrast'] }, other);
    await this.page.emulateMedia({ colorScheme: this.theme });
  }

  private async checkFindings(options: object, theme: TestTheme): Promise<void> {
    const asked = JSON.stringify({ resultTypes: ['violations'], ...options });
    const findings = await this.page.evaluate<Finding[]>(
      `axe.run(document, ${asked}).then(({ violations }) => violations)`,
    );
    const serious = findings.filter(({ impact }) => impact === 'serious' || impact === 'critical');
    const lines = serious.flatMap(({ id, nodes }) =>
      nodes.slice(0, 3).map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`),
    );
    assert.deepEqual(lines, [], `${theme}, ${this.width} px`);
  }

  async checkWidth(): Promise<void> {
    const [scroll, client] = await this.page.evaluate<[number, number]>(
      '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
    );
    assert.ok(scroll <= client, `the page is ${scroll} px wide on ${client} px`);
  }

  async screenshot(folder: string, name: string): Promise<void> {
    await mkdir(folder, { recursive: true });
    await this.page.screenshot({ path: join(folder, `${name}-${this.theme}-${this.width}.png`) });
  }

  async close(): Promise<void> {
    await this.context.close();
    assert.deepEqual(this.errors, [], `${this.theme}, ${this.width} px`);
  }
}
