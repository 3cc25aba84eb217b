import js from '@eslint/js';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  js.configs.recommended,
  ...tseslint.configs.strict,
  {
    rules: {
      eqeqeq: 'error',
      curly: 'error',
      'prefer-arrow-callback': 'error',
      'max-len': ['error', { code: 120 }],
      'max-lines': ['error', 300],
      'max-lines-per-function': ['error', 60],
      '@typescript-eslint/no-non-null-assertion': 'error',
      '@typescript-eslint/explicit-function-return-type': ['error', { allowExpressions: true }]
    }
  },
  {
    // a table of cases within one call is not read at once
    files: ['tests/**'],
    rules: { 'max-lines': 'off', 'max-lines-per-function': 'off' }
  }
);
