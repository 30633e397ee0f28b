import { createReadStream } from 'node:fs'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as z from 'zod'
import { notFound } from '../../lib/contract/problem.ts'
import type { OpenApiDocument } from '../http/openapi.ts'
import { type Route, rawRoute } from '../http/route.ts'

const FOLDER = dirname(fileURLToPath(import.meta.resolve('swagger-ui-dist/package.json')))
const FILES = ['swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-32x32.png']
const TYPES: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
}

/** No external and no inline resources: the page loads only files of this server. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

// Addresses are relative to the page, so it works at the root and below the base path.
const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Keepsake API</title>
<link rel="icon" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="reference"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`
const START = `SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#reference',
  presets: [SwaggerUIBundle.presets.apis],
  layout: 'BaseLayout',
  deepLinking: true,
  docExpansion: 'list',
  tagsSorter: 'alpha',
  validatorUrl: null,
})
`
const CACHED = 'public, max-age=3600'
const tags = ['Reference']
const raw = (...contentTypes: string[]) => ({ contentTypes, statuses: { 200: 'OK' } })

/** The OpenAPI document, and an interactive page for it. */
export const referenceRoutes = (document: () => OpenApiDocument): Route[] => [
  rawRoute({
    method: 'get',
    path: '/openapi.json',
    operationId: 'getOpenApiDocument',
    tags,
    limit: 'public',
    summary: 'This document',
    description: 'OpenAPI 3.1 of every operation, for tools and generated clients.',
    raw: raw('application/json'),
    handle: async () => ({
      status: 200,
      headers: { 'Content-Type': 'application/json; charset=utf-8', 'Cache-Control': 'public, max-age=300' },
      body: JSON.stringify(document()),
    }),
  }),

  rawRoute({
    method: 'get',
    path: '/docs',
    operationId: 'getReferencePage',
    tags,
    limit: 'public',
    summary: 'This document as an interactive page',
    description: 'Swagger UI. The page loads no external resources.',
    raw: raw('text/html'),
    handle: async () => ({
      status: 200,
      headers: {
        'Content-Type': 'text/html; charset=utf-8',
        'Content-Security-Policy': POLICY,
        'Cache-Control': CACHED,
      },
      body: PAGE,
    }),
  }),

  rawRoute({
    method: 'get',
    path: '/docs/{file}',
    operationId: 'getReferenceFile',
    tags,
    limit: 'public',
    summary: 'A file of the interactive page',
    description: 'Its script, its style sheet and its icon.',
    params: z.object({ file: z.string().meta({ example: 'start.js' }) }),
    raw: raw('text/css', 'text/javascript', 'image/png'),
    async handle({ params: { file } }) {
      if (file !== 'start.js' && !FILES.includes(file)) throw notFound()
      const headers = { 'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream', 'Cache-Control': CACHED }
      return { status: 200, headers, body: file === 'start.js' ? START : createReadStream(join(FOLDER, file)) }
    },
  }),
]
