/** Which applications are too old. */

import { isTooOld } from '../src/compat/versions';

test.each(['3.6.8', '4.0.13', '4.1.0', '7.0.8', '7.1.0b2'])('%s is too old', version => {
  expect(isTooOld(version)).toBe(true);
});

test.each(['4.2.0', '4.6.6', '4.10.0a1', '5.0.0', '7.2.0', '7.6.5', '', 'unknown'])('%s is not', version => {
  expect(isTooOld(version)).toBe(false);
});
