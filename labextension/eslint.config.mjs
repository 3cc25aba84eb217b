import js from '@eslint/js';
import tseslint from 'typescript-eslint';

export default tseslint.config(js.configs.recommended, ...tseslint.configs.strict, {
  rules: {
    eqeqeq: 'error',
    curly: 'error',
    'prefer-arrow-callback': 'error',
    'max-len': ['error', { code: 120 }],
    '@typescript-eslint/no-non-null-assertion': 'error',
    '@typescript-eslint/explicit-function-return-type': ['error', { allowExpressions: true }]
  }
});
