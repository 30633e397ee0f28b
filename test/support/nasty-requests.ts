import fc from 'fast-check'

/** Paths at which the listeners of this project do something. */
const PATHS = [
  ...['/', '/health', '/livez', '/readyz', '/metrics', '/progress', '/directory', '/page.js', '/docs', '/openapi.json'],
  ...['/v1/health', '/v1/api/auth/login', '/v1/api/media/org_x', '/v1/api/media/org_x/upload', '/v1/d/x/y', '/d/x/y'],
  ...['/jwks', '/token', '/token/revocation', '/.well-known/openid-configuration', '/auth', '/me'],
]

/** Request targets that have broken servers before, or look as if they could. */
const TARGETS = [
  ...['//[', '//', '//[::1', '///', '/\\', '\\', '*', '', '?', '#', '/?', '/#a', 'x', '.', '/../../etc/passwd', '//@'],
  ...[
    'http://',
    'http://[',
    'http://example.org/v1/health',
    'http://127.0.0.1:99999/',
    'https://[::1]:x/',
    'file:///x',
  ],
  ...['/%', '/%2', '/%zz', '/%00', '/%ff', '/%c0%ae%c0%ae/', '/%e0%a4%a', '/v1/%', '/v1/api/media/%ff/%', '/d/%/%'],
  ...[
    '/v1/d/%00/%',
    '/d/a/%2e%2e/%2e%2e/b',
    '/v1//api//media',
    '/page.js/..',
    '/constructor',
    '/__proto__',
    '/toString',
  ],
  ...['/?a[b]=c&__proto__[x]=1', '/?%', '/token?%ff=%', '/v1/api/media/org_x?cursor=%00&limit=1e999', '/\u00ff\u00fe'],
  ...[`/${'a'.repeat(64 * 1024)}`, `/${'%61'.repeat(5000)}`, `/v1/${'../'.repeat(2000)}`, `/?${'a&'.repeat(4000)}`],
]

const METHODS = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'TRACE',
  'CONNECT',
  'PRI',
  'QUERY',
  'get',
  'X',
]

const request = (port: number, method: string, target: string, headers: readonly string[] = [], body = '') =>
  `${[`${method} ${target} HTTP/1.1`, `Host: 127.0.0.1:${port}`, ...headers].join('\r\n')}\r\n\r\n${body}`

/** Whole messages, each wrong in a way of its own. */
function messages(port: number): string[] {
  const post = (target: string, headers: string[], body = '') => request(port, 'POST', target, headers, body)
  const json = 'Content-Type: application/json'
  const get = request(port, 'GET', '/')
  return [
    ...[
      '',
      '\r\n',
      '\r\n\r\n',
      '\0',
      'GET',
      'GET /',
      'GET / HTTP/1.1',
      'GET / HTTP/9.9\r\n\r\n',
      'GET / HTTP/1.0\r\n\r\n',
    ],
    ...['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'SSH-2.0-x\r\n'],
    ...[`GET / HTTP/1.1\r\n\r\n`, `GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n`, `GET / HTTP/1.1\r\nHost: [\r\n\r\n`],
    ...[`GET / HTTP/1.1\nHost: 127.0.0.1:${port}\n\n`, `GET /\0 HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`],
    post('/', ['Transfer-Encoding: chunked', 'Content-Length: 5'], '0\r\n\r\n'),
    post('/', ['Transfer-Encoding: chunked, identity'], '0\r\n\r\n'),
    post('/', ['Transfer-Encoding: xchunked'], '0\r\n\r\n'),
    post('/', ['Transfer-Encoding: chunked'], 'ffffffffffffffffffff\r\n'),
    post('/', ['Transfer-Encoding: chunked'], 'zz\r\n'),
    post('/', ['Transfer-Encoding: chunked'], '5\r\nhel'),
    post('/', ['Transfer-Encoding: chunked'], `1;${'e'.repeat(20_000)}\r\nx\r\n0\r\n\r\n`),
    post('/', ['Transfer-Encoding: chunked', 'Trailer: host'], '0\r\nHost: [\r\n\r\n'),
    ...['5', '99999999999999999999', '-1', '1e3', '5, 5', '5\r\nContent-Length: 6'].map((length) =>
      post('/v1/api/auth/login', [json, `Content-Length: ${length}`], 'hel'),
    ),
    ...['/progress', '/token', '/v1/api/auth/login', '/v1/api/media/org_x/upload', '/directory'].flatMap((path) => [
      post(path, [json, 'Content-Length: 4'], '\0\xff{['),
      post(path, [json, 'Content-Length: 100'], '{"half":'),
      post(path, ['Content-Type: multipart/form-data; boundary=', 'Content-Length: 4'], '--\r\n'),
      post(
        path,
        ['Content-Type: multipart/form-data; boundary=b', 'Content-Length: 30'],
        '--b\r\nContent-Disposition: x',
      ),
      post(path, ['Content-Type: application/x-www-form-urlencoded', 'Content-Length: 9'], '%=%&%ff=%'),
      post(path, ['Content-Type: \xff/;;=', 'Content-Encoding: gzip', 'Content-Length: 2'], '\x1f\x8b'),
      post(path, [json, 'Expect: 100-continue', 'Content-Length: 9']),
      post(path, [json, 'Expect: the unexpected', 'Content-Length: 2'], '{}'),
    ]),
    ...['Bearer', 'Bearer \xff', 'Bearer a.b.c', `Bearer ${'a.'.repeat(3000)}`, 'Basic Og==', 'Basic \xff'].flatMap(
      (value) =>
        ['/v1/api/media/org_x', '/progress', '/token'].map((path) =>
          request(port, 'POST', path, [`Authorization: ${value}`]),
        ),
    ),
    ...['bytes=-', 'bytes=9-1', `bytes=${'0-1,'.repeat(2000)}`].map((range) =>
      request(port, 'GET', '/page.js', [`Range: ${range}`, 'If-Range: \xff', 'If-None-Match: "\xff']),
    ),
    request(port, 'GET', '/', ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: x']),
    request(port, 'GET', '/', ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAA']),
    request(port, 'GET', '/v1/health', ['Connection: host, content-length, x', 'Keep-Alive: timeout=-1', 'TE: \xff']),
    request(port, 'GET', '/', [
      'X-Forwarded-For: [',
      'X-Forwarded-Host: [',
      'X-Forwarded-Proto: \xff',
      'Forwarded: for="',
    ]),
    request(port, 'GET', '/', [
      'Cookie: a=%; __proto__=x; =',
      'Accept: ,;q=',
      'Accept-Language: \xff',
      'Accept-Encoding: *',
    ]),
    request(port, 'GET', '/', [`X: ${'x'.repeat(100_000)}`]),
    request(
      port,
      'GET',
      '/',
      Array.from({ length: 3000 }, (_, i) => `X-${i}: y`),
    ),
    request(port, 'GET', '/', ['__proto__: x', 'constructor: y', 'X-Request-Id: \xff\t', 'X-Page-Key: \xff']),
    request(port, 'GET', '/', ['no colon']),
    request(port, 'GET', '/', [' folded: header', '\tmore']),
    get.repeat(50),
    `${get}${request(port, 'GET', '//[')}${get}\0${get}`,
    `${request(port, 'HEAD', '/')}${post('/', ['Content-Length: 9'], get)}`,
  ]
}

/** Everything above as the bytes of one connection to this port. */
export const knownNasty = (port: number): string[] => [
  ...TARGETS.flatMap((target) => ['GET', 'POST'].map((method) => request(port, method, target, ['Content-Length: 0']))),
  ...METHODS.flatMap((method) => ['/', '*', '//[', `127.0.0.1:${port}`].map((target) => request(port, method, target))),
  ...messages(port),
]

const byteText = (maxLength: number) =>
  fc.uint8Array({ maxLength }).map((bytes) => Buffer.from(bytes).toString('latin1'))
const headerName = fc.constantFrom(
  ...[
    'Host',
    'Connection',
    'Content-Length',
    'Transfer-Encoding',
    'Content-Type',
    'Expect',
    'Upgrade',
    'Authorization',
  ],
  ...[
    'Range',
    'If-None-Match',
    'Cookie',
    'Origin',
    'Idempotency-Key',
    'X-Request-Id',
    'X-Page-Key',
    'X-Forwarded-For',
    '\xff',
  ],
)
const headerValue = fc.oneof(
  fc.constantFrom(
    'chunked',
    'close',
    'keep-alive',
    '0',
    '3',
    'application/json',
    'Bearer x',
    'bytes=0-',
    '100-continue',
  ),
  byteText(40).map((text) => text.replace(/[\r\n\0]/g, ' ')),
)
const target = fc.oneof(
  fc.constantFrom(...PATHS, ...TARGETS),
  fc.webUrl({ withQueryParameters: true }),
  fc.tuple(fc.constantFrom(...PATHS), byteText(30)).map(([path, rest]) => `${path}${rest.replace(/[\r\n ]/g, '%')}`),
)

/** One to three generated messages on one connection, whole, cut short, or with bytes that belong nowhere. */
export const generatedBytes = (port: number): fc.Arbitrary<string> => {
  const one = fc
    .record({
      method: fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...METHODS) }, byteText(6)),
      target,
      headers: fc.array(fc.tuple(headerName, headerValue), { maxLength: 6 }),
      body: fc.oneof(byteText(60), fc.json()),
      keep: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, fc.double({ min: 0, max: 1, noNaN: true })),
    })
    .map((r) => {
      const lines = r.headers.map(([name, value]) => `${name}: ${value}`)
      const whole = request(port, r.method, r.target, lines, r.body)
      return whole.slice(0, Math.ceil(whole.length * r.keep))
    })
  return fc.array(one, { minLength: 1, maxLength: 3 }).map((all) => all.join(''))
}
