const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
if (icon === null) throw new Error('the page has no icon, beside which its files are');

/** The icon of the dashboard. */
export const ICON_URL = icon.href;

/** Path of the dashboard: `/ui`, or `/PREFIX/ui` behind a proxy that adds a prefix. */
export const DASHBOARD_PATH = new URL('.', ICON_URL).pathname.slice(0, -1);

/** Address of the service, without a slash at the end. */
export const SERVICE_URL = new URL('..', ICON_URL).href.slice(0, -1);
