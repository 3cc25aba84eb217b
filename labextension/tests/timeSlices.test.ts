/** Work is done at once, and then in slices with room for the page between them. */

import { Slices } from '../src/performance/timeSlices';

beforeEach(() => {
  jest.useFakeTimers();
  // a page that draws 60 frames a second
  globalThis.requestAnimationFrame = draw => setTimeout(() => draw(0), 16) as unknown as number;
  globalThis.cancelAnimationFrame = clearTimeout;
});

test('what is little is done at once, and what comes before the next frame waits for it', () => {
  let steps = 0;
  const slices = new Slices(() => {
    steps++;
    return 'nothing';
  });
  slices.wake();
  slices.wake();
  expect(steps).toBe(1);
  jest.advanceTimersByTime(200);
  expect(steps).toBe(2);
  jest.advanceTimersByTime(1000);
  expect(steps).toBe(2);
});

test('what is much is done in slices, all of it', () => {
  let left = 100;
  const at: number[] = [];
  const slices = new Slices(() => {
    at.push(performance.now());
    jest.advanceTimersByTime(5); // so long a step takes
    return --left ? 'more' : 'nothing';
  });
  slices.wake();
  expect(left).toBeGreaterThan(90);
  jest.advanceTimersByTime(5000);
  expect(left).toBe(0);
});

test('a step that has to wait is done again after the frame, and a failure does not end it', () => {
  const results = ['later', 'fail', 'nothing'] as const;
  let steps = 0;
  const slices = new Slices(() => {
    const result = results[steps++];
    if (result === 'fail') {
      throw new Error('a step');
    }
    return result;
  });
  slices.wake();
  expect(steps).toBe(1);
  expect(() => jest.advanceTimersByTime(200)).toThrow('a step');
  slices.wake();
  jest.advanceTimersByTime(200);
  expect(steps).toBe(3);
  slices.dispose();
  slices.wake();
  expect(steps).toBe(3);
});
