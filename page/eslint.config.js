import js from '@eslint/js';
import globals from 'globals';

export default [
  js.configs.recommended,
  {
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      'no-unused-vars': 'error',
      'prefer-const': 'error',
      // `== null` stands for null or undefined, and nothing else.
      eqeqeq: ['error', 'always', { null: 'ignore' }],
    },
  },
  { files: ['src/**/*.js'], languageOptions: { globals: globals.browser } },
  { files: ['*.mjs', '*.js'], languageOptions: { globals: globals.node } },
];
