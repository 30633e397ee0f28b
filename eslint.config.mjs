import tseslint from 'typescript-eslint'

// Biome formats and lints; ESLint only adds the type-aware promise rules that Biome still misses half of. In a server
// an un-awaited transaction is lost data (docs/adr/0006-two-linters.md).
export default tseslint.config({
  files: ['{api,crds,jobs,lib,local,operator,test}/**/*.ts'],
  extends: [tseslint.configs.base],
  languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
  rules: {
    '@typescript-eslint/no-floating-promises': [
      'error',
      // A tap test returns a promise that tap itself waits for.
      {
        allowForKnownSafeCalls: [
          { from: 'package', package: 'tap', name: ['test', 'rejects', 'resolves', 'resolveMatch'] },
          { from: 'package', package: '@tapjs/test', name: ['test'] },
        ],
      },
    ],
    '@typescript-eslint/no-misused-promises': 'error',
    '@typescript-eslint/await-thenable': 'error',
    '@typescript-eslint/return-await': 'error',
    '@typescript-eslint/switch-exhaustiveness-check': 'error',
  },
})
