// Bundles the page into the Python package: three files, nothing is loaded from elsewhere.
import { copyFileSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const target = here('../genepool/dashboard/static/');

mkdirSync(target, { recursive: true });
await build({
  entryPoints: [here('src/page.js'), here('src/page.css')],
  outdir: target,
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  charset: 'utf8',
  legalComments: 'eof',
  logLevel: 'warning',
});
copyFileSync(here('src/index.html'), `${target}/index.html`);
