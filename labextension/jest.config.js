module.exports = {
  testEnvironment: 'node',
  testMatch: ['<rootDir>/tests/**/*.test.ts'],
  transform: { '\\.ts$': ['ts-jest', { tsconfig: 'tests/tsconfig.json' }] }
};
