/** Which JupyterLab shows live cells. */

/**
 * Whether an application is too old for them, by its version: JupyterLab before 4.2, Notebook before 7.2.
 *
 * One that says no version is taken as it is.
 */
export function isTooOld(version: string): boolean {
  const [major, minor] = version.split('.').map(part => parseInt(part, 10));
  const [leastMajor, leastMinor] = major >= 7 ? [7, 2] : [4, 2];
  return major < leastMajor || (major === leastMajor && minor < leastMinor);
}
